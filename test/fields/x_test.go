package fields
import ("testing";"reflect";"fmt";"strings";"os"
corev1 "k8s.io/api/core/v1"
"k8s.io/apimachinery/pkg/api/resource"
"k8s.io/apimachinery/pkg/util/intstr"
metav1 "k8s.io/apimachinery/pkg/apis/meta/v1")
func walk(t reflect.Type, path string, f func(string, string)) {
	switch t.Kind() {
	case reflect.Pointer: walk(t.Elem(), path, f); return
	case reflect.Slice: 
		if t.Elem().Kind()==reflect.Uint8 {f(path,t.String());return}
		walk(t.Elem(), path+"[]", f); return
	case reflect.Map: f(path, t.String()); return
	case reflect.Struct:
		if t==reflect.TypeFor[resource.Quantity]() || t==reflect.TypeFor[intstr.IntOrString]()||t==reflect.TypeFor[metav1.Time]()||t==reflect.TypeFor[metav1.LabelSelector]()||t==reflect.TypeFor[metav1.FieldsV1]() { f(path,t.String()); return}
		for i:=0;i<t.NumField();i++ {
			sf:=t.Field(i)
			name,_,_:=strings.Cut(sf.Tag.Get("json"),",")
			p:=path
			if name!="" {p=path+"."+name}
			walk(sf.Type,p,f)
		}
	default: f(path,t.String())
	}
}
func TestX(t *testing.T){
	out,_:=os.Create("/tmp/par-fields.txt")
	walk(reflect.TypeFor[metav1.ObjectMeta](),"metadata",func(p,ty string){fmt.Fprintln(out,p,ty)})
	walk(reflect.TypeFor[corev1.PodSpec](),"spec",func(p,ty string){fmt.Fprintln(out,p,ty)})
}
