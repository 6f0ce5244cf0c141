package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client is the part of the API that podrun-node uses. The types of package k8s.io/client-go/kubernetes
// implement it, too; podrun-node does not link that package, because it contains all API groups, which take
// 15 MB in the binary and in memory.
type Client interface {
	Pods(namespace string) objects[*corev1.Pod, *corev1.PodList]
	Services(namespace string) objects[*corev1.Service, *corev1.ServiceList]
	ConfigMaps(namespace string) objects[*corev1.ConfigMap, *corev1.ConfigMapList]
	Secrets(namespace string) objects[*corev1.Secret, *corev1.SecretList]
	Claims(namespace string) objects[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList]
	Volumes() objects[*corev1.PersistentVolume, *corev1.PersistentVolumeList]
	Events(namespace string) objects[*corev1.Event, *corev1.EventList]
	Nodes() objects[*corev1.Node, *corev1.NodeList]
	Leases(namespace string) objects[*coordinationv1.Lease, *coordinationv1.LeaseList]
	RuntimeClasses() objects[*nodev1.RuntimeClass, *nodev1.RuntimeClassList]
	SigningRequests() objects[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList]
	// CreateToken requests a token of a service account.
	CreateToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
	// Review asks whether a user may make a request.
	Review(context.Context, *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
}

// object is an object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// objects are the calls for the objects of one kind.
type objects[T object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

// restClient implements Client.
type restClient struct {
	core, coordination, node, authorization, certificates rest.Interface
	parameters                                            runtime.ParameterCodec
}

// newRESTClient returns the client of an API server.
func newRESTClient(config *rest.Config) (Client, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, nodev1.AddToScheme, authorizationv1.AddToScheme, authenticationv1.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	shared := *config
	// Without it, each group has its own limit.
	shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	shared.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	c := &restClient{parameters: runtime.NewParameterCodec(scheme)}
	for _, group := range []struct {
		version schema.GroupVersion
		path    string
		client  *rest.Interface
	}{
		{corev1.SchemeGroupVersion, "/api", &c.core},
		{coordinationv1.SchemeGroupVersion, "/apis", &c.coordination},
		{nodev1.SchemeGroupVersion, "/apis", &c.node},
		{authorizationv1.SchemeGroupVersion, "/apis", &c.authorization},
		{certificatesv1.SchemeGroupVersion, "/apis", &c.certificates},
	} {
		one := shared
		one.GroupVersion = &group.version
		one.APIPath = group.path
		if *group.client, err = rest.RESTClientForConfigAndClient(&one, http); err != nil {
			return nil, fmt.Errorf("client of %s: %w", group.version, err)
		}
	}
	return c, nil
}

// of returns the calls for the objects of a resource, of type T, and their lists, of type L.
func of[T, L any, P interface {
	*T
	object
}, Q interface {
	*L
	runtime.Object
}](c *restClient, group rest.Interface, resource, namespace string) objects[P, Q] {
	return gentype.NewClientWithList(resource, group, c.parameters, namespace, func() P { return new(T) }, func() Q { return new(L) }, gentype.PrefersProtobuf[P]())
}

func (c *restClient) Pods(namespace string) objects[*corev1.Pod, *corev1.PodList] {
	return of[corev1.Pod, corev1.PodList](c, c.core, "pods", namespace)
}

func (c *restClient) Services(namespace string) objects[*corev1.Service, *corev1.ServiceList] {
	return of[corev1.Service, corev1.ServiceList](c, c.core, "services", namespace)
}

func (c *restClient) ConfigMaps(namespace string) objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return of[corev1.ConfigMap, corev1.ConfigMapList](c, c.core, "configmaps", namespace)
}

func (c *restClient) Secrets(namespace string) objects[*corev1.Secret, *corev1.SecretList] {
	return of[corev1.Secret, corev1.SecretList](c, c.core, "secrets", namespace)
}

func (c *restClient) Claims(namespace string) objects[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return of[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](c, c.core, "persistentvolumeclaims", namespace)
}

func (c *restClient) Volumes() objects[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return of[corev1.PersistentVolume, corev1.PersistentVolumeList](c, c.core, "persistentvolumes", "")
}

func (c *restClient) Events(namespace string) objects[*corev1.Event, *corev1.EventList] {
	return of[corev1.Event, corev1.EventList](c, c.core, "events", namespace)
}

func (c *restClient) Nodes() objects[*corev1.Node, *corev1.NodeList] {
	return of[corev1.Node, corev1.NodeList](c, c.core, "nodes", "")
}

func (c *restClient) Leases(namespace string) objects[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return of[coordinationv1.Lease, coordinationv1.LeaseList](c, c.coordination, "leases", namespace)
}

func (c *restClient) RuntimeClasses() objects[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return of[nodev1.RuntimeClass, nodev1.RuntimeClassList](c, c.node, "runtimeclasses", "")
}

func (c *restClient) SigningRequests() objects[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
	return of[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](c, c.certificates, "certificatesigningrequests", "")
}

func (c *restClient) CreateToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	out := &authenticationv1.TokenRequest{}
	err := c.core.Post().UseProtobufAsDefault().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").Body(request).Do(ctx).Into(out)
	return out, err
}

func (c *restClient) Review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	out := &authorizationv1.SubjectAccessReview{}
	err := c.authorization.Post().UseProtobufAsDefault().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(out)
	return out, err
}
