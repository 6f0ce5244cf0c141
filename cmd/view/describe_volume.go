package view

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

func (d *Description) Volumes(list []corev1.Volume) {
	if len(list) == 0 {
		d.row(0, d.titleIndent()+"Volumes:", "<none>")
		return
	}
	d.row(0, d.titleIndent()+"Volumes:")
	for i := range list {
		d.row(1, d.nameIndent()+list[i].Name+":")
		describeVolume(d, &list[i].VolumeSource)
	}
}

// describeVolume describes the sources that podrun can mount. For a source that podrun never mounts, it
// writes <unknown>. kubectl does the same for sources that it does not know.
func describeVolume(d *Description, v *corev1.VolumeSource) {
	kind := func(text string) { d.row(2, "Type:", text) }
	switch {
	case v.HostPath != nil:
		kind("HostPath (bare host directory volume)")
		d.row(2, "Path:", v.HostPath.Path)
		if v.HostPath.Type != nil {
			d.row(2, "HostPathType:", string(*v.HostPath.Type))
		} else {
			d.row(2, "HostPathType:", "<none>")
		}
	case v.EmptyDir != nil:
		kind("EmptyDir (a temporary directory that shares a pod's lifetime)")
		d.row(2, "Medium:", string(v.EmptyDir.Medium))
		limit := "<unset>"
		if q := v.EmptyDir.SizeLimit; q != nil && q.Sign() > 0 {
			limit = q.String()
		}
		d.row(2, "SizeLimit:", limit)
	case v.Secret != nil:
		kind("Secret (a volume populated by a Secret)")
		describeVolumeObject(d, "SecretName", v.Secret.SecretName, v.Secret.Optional)
	case v.ConfigMap != nil:
		kind("ConfigMap (a volume populated by a ConfigMap)")
		describeVolumeObject(d, "Name", v.ConfigMap.Name, v.ConfigMap.Optional)
	case v.Projected != nil:
		kind("Projected (a volume that contains injected data from multiple sources)")
		describeProjections(d, v.Projected.Sources)
	case v.DownwardAPI != nil:
		kind("DownwardAPI (a volume populated by information about the pod)")
		d.row(2, "Items:")
		describeDownwardItems(d, v.DownwardAPI.Items)
	case v.PersistentVolumeClaim != nil:
		kind("PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)")
		d.row(2, "ClaimName:", v.PersistentVolumeClaim.ClaimName)
		d.row(2, "ReadOnly:", fmt.Sprint(v.PersistentVolumeClaim.ReadOnly))
	case v.Image != nil:
		kind("Image (a container image or OCI artifact)")
		d.row(2, "Reference:", v.Image.Reference)
		d.row(2, "PullPolicy:", string(v.Image.PullPolicy))
	default:
		d.row(1, "<unknown>")
	}
}

// describeVolumeObject writes the name of the object that provides a volume's files, and whether it is
// optional.
func describeVolumeObject(d *Description, title, name string, mayLack *bool) {
	d.row(2, title+":", name)
	d.row(2, "Optional:", fmt.Sprint(mayLack != nil && *mayLack))
}

func describeProjections(d *Description, sources []corev1.VolumeProjection) {
	for _, s := range sources {
		switch {
		case s.Secret != nil:
			describeVolumeObject(d, "SecretName", s.Secret.Name, s.Secret.Optional)
		case s.DownwardAPI != nil:
			d.row(2, "DownwardAPI:", "true")
		case s.ConfigMap != nil:
			describeVolumeObject(d, "ConfigMapName", s.ConfigMap.Name, s.ConfigMap.Optional)
		case s.ServiceAccountToken != nil && s.ServiceAccountToken.ExpirationSeconds != nil:
			d.row(2, "TokenExpirationSeconds:", fmt.Sprint(*s.ServiceAccountToken.ExpirationSeconds))
		}
	}
}

func describeDownwardItems(d *Description, items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		if item.FieldRef != nil {
			d.row(3, item.FieldRef.FieldPath+" -> "+item.Path)
		}
		if item.ResourceFieldRef != nil {
			d.row(3, item.ResourceFieldRef.Resource+" -> "+item.Path)
		}
	}
}
