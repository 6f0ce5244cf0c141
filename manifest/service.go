package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// maxServices is the maximum number of Services in one input.
const maxServices = 1000

func (l *loader) service(it item, h header) {
	var obj corev1.Service
	if !l.decode(it, l.objectName(h), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, true)
	obj.Status = corev1.ServiceStatus{}
	completeService(&obj.Spec)
	coredefaults.SetObjectDefaults_Service(&obj)
	var internal core.Service
	err := coredefaults.Convert_v1_Service_To_core_Service(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList { return corevalidation.ValidateServiceCreate(&internal) }) {
		if len(l.objects.Services) == maxServices {
			l.stop(it.doc, "more than %d Services", maxServices)
			return
		}
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.Services[obj.Namespace+"/"+obj.Name] = &obj
	}
}

// completeService sets the fields that the API server derives from others before it validates a
// Service (registry/core/service).
func completeService(spec *corev1.ServiceSpec) {
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.IPFamilyPolicy == nil && len(spec.IPFamilies) == 2 {
		policy := corev1.IPFamilyPolicyRequireDualStack
		spec.IPFamilyPolicy = &policy
	}
}
