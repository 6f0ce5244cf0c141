package manifest

import "k8s.io/apimachinery/pkg/api/equality"

// OnlyReferred reports whether an input has ConfigMaps or Secrets, and apart from skipped objects no others.
func (o *Objects) OnlyReferred() bool {
	return len(o.ConfigMaps)+len(o.Secrets) > 0 && len(o.Pods)+len(o.Workloads)+len(o.Jobs)+len(o.CronJobs)+
		len(o.Services)+len(o.Claims)+len(o.Volumes)+len(o.RuntimeClasses)+len(o.PriorityClasses) == 0
}

// Refreshed returns the content of a checkpoint as an input. The ConfigMaps and Secrets of o to which the pod refers
// replace those of the checkpoint.
func (c Checkpoint) Refreshed(o *Objects) *Objects {
	out, given := c.Objects(), Referred(c.Pod, o)
	for _, m := range given.ConfigMaps {
		out.ConfigMaps[m.Namespace+"/"+m.Name] = m
	}
	for _, s := range given.Secrets {
		out.Secrets[s.Namespace+"/"+s.Name] = s
	}
	return out
}

// ReferredNames returns the names of a checkpoint's ConfigMaps and Secrets, such as ConfigMap shop/web.
func (c Checkpoint) ReferredNames() (names []string) {
	for _, m := range c.ConfigMaps {
		names = append(names, "ConfigMap "+m.Namespace+"/"+m.Name)
	}
	for _, s := range c.Secrets {
		names = append(names, "Secret "+s.Namespace+"/"+s.Name)
	}
	return names
}

// Agrees reports whether the objects that two inputs have in common, apart from pods, are equal.
func (o *Objects) Agrees(with *Objects) bool {
	return agree(o.ConfigMaps, with.ConfigMaps) && agree(o.Secrets, with.Secrets) && agree(o.Claims, with.Claims) &&
		agree(o.Volumes, with.Volumes) && agree(o.RuntimeClasses, with.RuntimeClasses)
}

func agree[T any](x, y map[string]T) bool {
	for key, o := range x {
		if other, both := y[key]; both && !equality.Semantic.DeepEqual(o, other) {
			return false
		}
	}
	return true
}
