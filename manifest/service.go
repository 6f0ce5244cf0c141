package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservice "k8s.io/kubernetes/pkg/api/service"
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
	if obj.Spec.ClusterIP != "" && len(obj.Spec.ClusterIPs) == 0 {
		obj.Spec.ClusterIPs = []string{obj.Spec.ClusterIP} // as the API's storage does (normalizeClusterIPs)
	}
	coredefaults.SetObjectDefaults_Service(&obj)
	var internal core.Service
	err := coredefaults.Convert_v1_Service_To_core_Service(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList { return validateService(&internal) }) {
		if len(l.objects.Services) == maxServices {
			l.stop(it.doc, "more than %d Services", maxServices)
			return
		}
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.Services[obj.Namespace+"/"+obj.Name] = &obj
	}
}

// validateService returns the errors with which the API refuses a new Service. The API's storage allocates
// addresses and ports before it validates; in podrun, package service assigns them after all objects have
// been read. validateService therefore sets the only allocated field without which a Service is invalid
// (allocHealthCheckNodePort in registry/core/service/storage).
func validateService(s *core.Service) field.ErrorList {
	if apiservice.NeedsHealthCheck(s) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = 1
	}
	return append(corevalidation.ValidateServiceCreate(s), validateFamilyCount(&s.Spec)...)
}

// validateFamilyCount returns the errors with which the API's storage refuses two address families of a
// Service that has a single one: without a policy, a Service has a single one, unless it is headless and
// has no selector (initIPFamilyFields in registry/core/service/storage).
func validateFamilyCount(spec *core.ServiceSpec) (errs field.ErrorList) {
	policy := core.IPFamilyPolicySingleStack
	switch {
	case spec.Type == core.ServiceTypeExternalName:
		return nil
	case spec.IPFamilyPolicy != nil:
		policy = *spec.IPFamilyPolicy
	case spec.ClusterIP == core.ClusterIPNone && len(spec.Selector) == 0:
		policy = core.IPFamilyPolicyRequireDualStack
	}
	if policy != core.IPFamilyPolicySingleStack {
		return nil
	}
	path := field.NewPath("spec", "ipFamilyPolicy")
	const message = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	if len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path, policy, message+"cluster IPs are specified"))
	}
	if len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path, policy, message+"IP families are specified"))
	}
	return errs
}
