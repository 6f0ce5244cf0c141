package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestRESTClient checks the requests of the client.
func TestRESTClient(t *testing.T) {
	var got, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type"), string(data)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	c, err := newRESTClient(&rest.Config{Host: server.URL, QPS: 50, Burst: 100, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	const protobuf = " application/vnd.kubernetes.protobuf"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, call := range []struct {
		want string
		do   func() error
	}{
		{"GET /api/v1/pods?fieldSelector=spec.nodeName%3Da ", func() error {
			_, err := c.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=a"})
			return err
		}},
		{"POST /api/v1/namespaces/shop/pods" + protobuf, func() error { _, err := c.Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}); return err }},
		{"PATCH /api/v1/namespaces/shop/pods/web/status application/strategic-merge-patch+json", func() error {
			_, err := c.Pods("shop").Patch(t.Context(), "web", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
			return err
		}},
		{"DELETE /api/v1/namespaces/shop/pods/web" + protobuf, func() error { return c.Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}) }},
		{"GET /api/v1/services ", func() error { _, err := c.Services("").List(t.Context(), metav1.ListOptions{}); return err }},
		{"GET /api/v1/namespaces/shop/configmaps ", func() error { _, err := c.ConfigMaps("shop").List(t.Context(), metav1.ListOptions{}); return err }},
		{"GET /api/v1/namespaces/shop/secrets ", func() error { _, err := c.Secrets("shop").List(t.Context(), metav1.ListOptions{}); return err }},
		{"GET /api/v1/namespaces/shop/persistentvolumeclaims/db ", func() error { _, err := c.Claims("shop").Get(t.Context(), "db", metav1.GetOptions{}); return err }},
		{"GET /api/v1/persistentvolumes/pv ", func() error { _, err := c.Volumes().Get(t.Context(), "pv", metav1.GetOptions{}); return err }},
		{"GET /api/v1/nodes/a ", func() error { _, err := c.Nodes().Get(t.Context(), "a", metav1.GetOptions{}); return err }},
		{"GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a ", func() error {
			_, err := c.Leases("kube-node-lease").Get(t.Context(), "a", metav1.GetOptions{})
			return err
		}},
		{"GET /apis/node.k8s.io/v1/runtimeclasses ", func() error { _, err := c.RuntimeClasses().List(t.Context(), metav1.ListOptions{}); return err }},
		{"POST /apis/certificates.k8s.io/v1/certificatesigningrequests" + protobuf, func() error {
			_, err := c.SigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{}, metav1.CreateOptions{})
			return err
		}},
		{"POST /api/v1/namespaces/shop/events" + protobuf, func() error {
			_, err := sink{t.Context(), c}.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}})
			return err
		}},
		{"PATCH /api/v1/namespaces/shop/events/e application/strategic-merge-patch+json", func() error {
			_, err := sink{t.Context(), c}.Patch(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}}, []byte("{}"))
			return err
		}},
		{"POST /api/v1/namespaces/shop/serviceaccounts/default/token" + protobuf, func() error {
			_, err := c.CreateToken(t.Context(), "shop", "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}})
			if !strings.Contains(body, "authentication.k8s.io/v1") || !strings.Contains(body, "vault") {
				t.Errorf("request for a token: %q", body)
			}
			return err
		}},
		{"POST /apis/authorization.k8s.io/v1/subjectaccessreviews" + protobuf, func() error {
			_, err := c.Review(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "u"}})
			return err
		}},
	} {
		if err := call.do(); err != nil || got != call.want {
			t.Errorf("%q, want %q: %v", got, call.want, err)
		}
	}
}
