package volume

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/podrun/podrun/internal/problem"
)

// planClaim returns the volume to which a claim is bound: a directory or a device of this host,
// or an NFS export.
func planClaim(in Input, v *corev1.Volume) (Volume, problem.List) {
	ref := v.PersistentVolumeClaim
	refuse := func(field, message, hint string) (Volume, problem.List) {
		return Volume{}, problem.List{missing(field, message, hint)}
	}
	hint := fmt.Sprintf("add the claim and its PersistentVolume to the input, or set --pvc %s=DIR, or --pvc-dir DIR for all claims", ref.ClaimName)
	claim := in.Claims[ref.ClaimName]
	if in.ClaimDir != "" && (claim == nil || in.PersistentVolumes[claim.Spec.VolumeName] == nil) {
		if _, _, err := Provision(in.ClaimDir, in.ID.Namespace, ref.ClaimName, claim); err != nil {
			return refuse("claimName", err.Error(), fmt.Sprintf("use --pvc %s=PATH to bind another device or directory", ref.ClaimName))
		}
	}
	if claim == nil {
		return refuse("claimName", fmt.Sprintf("persistentvolumeclaim %q not found", ref.ClaimName), hint)
	}
	pv := in.PersistentVolumes[claim.Spec.VolumeName]
	if pv == nil {
		return refuse("claimName", fmt.Sprintf("persistentvolumeclaim %q matches no PersistentVolume in the input: %s", ref.ClaimName, WhyUnbound(claim)), hint)
	}
	if r := pv.Spec.ClaimRef; r != nil && (r.Name != ref.ClaimName || r.Namespace != in.ID.Namespace) {
		// A cluster does not bind such a claim, and the kubelet checks it again (getPVSpec).
		return refuse("claimName", fmt.Sprintf("persistentvolumeclaim %q names the PersistentVolume %s, which is bound to the claim %s/%s", ref.ClaimName, pv.Name, r.Namespace, r.Name), "remove spec.volumeName from the claim")
	}
	if p := in.wrongNode(pv); p != nil {
		return Volume{}, problem.List{*p}
	}
	out, p := in.persistent(pv, ref.ReadOnly)
	if p != nil {
		return Volume{}, problem.List{*p}
	}
	out.ReadOnly = ref.ReadOnly
	if gid, err := strconv.ParseInt(pv.Annotations["pv.beta.kubernetes.io/gid"], 10, 64); err == nil {
		out.ExtraGroup = &gid
	}
	return out, nil
}

// persistent returns the Volume for a PersistentVolume, depending on the type of its source.
func (in Input) persistent(pv *corev1.PersistentVolume, readOnly bool) (Volume, *problem.Problem) {
	block := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.HostPath != nil && block:
		return Volume{Device: s.HostPath.Path, Setup: checkHostPath(corev1.HostPathBlockDev), HostPath: s.HostPath.Path}, nil
	case s.Local != nil && block:
		return Volume{Device: s.Local.Path, Setup: checkHostPath(corev1.HostPathBlockDev), HostPath: s.Local.Path}, nil
	case s.HostPath != nil:
		v := hostPathVolume(s.HostPath)
		if len(in.Private) > 0 {
			v.Setup.HostPath.Source, v.Setup.HostPath.Private = v.HostPath, in.Private
			v.Plugin, v.HostPath = hostPathPlugin, in.Layout.Pod(in.ID.UID).Volume(hostPathPlugin, pv.Name)
		}
		return v, nil
	case s.Local != nil:
		v := Volume{Plugin: localPlugin, HostPath: in.Layout.Pod(in.ID.UID).Volume(localPlugin, pv.Name)}
		v.Setup = Setup{Kind: SetupLocal, Local: &Local{Path: s.Local.Path, Create: ProvisionedPath(pv) != "", ReadOnly: readOnly, Options: pv.Spec.MountOptions, Private: in.Private}}
		if v.Setup.Local.Create {
			v.Setup.Local.Private = in.privateFor(s.Local.Path)
		}
		if sc := in.Pod.Spec.SecurityContext; sc != nil && !readOnly {
			v.FSGroup = sc.FSGroup
			if sc.FSGroupChangePolicy != nil {
				v.FSGroupPolicy = *sc.FSGroupChangePolicy
			}
		}
		return v, nil
	case s.NFS != nil:
		return in.nfs(pv.Name, NFS{Server: s.NFS.Server, Path: s.NFS.Path, ReadOnly: s.NFS.ReadOnly || readOnly, Options: pv.Spec.MountOptions}), nil
	}
	return Volume{}, &problem.Problem{Field: "claimName", Reason: "UnsupportedVolume",
		Message: fmt.Sprintf("PersistentVolume %s: %s", pv.Name, "its source is not supported"), Hint: "use hostPath, local or nfs"}
}

// wrongNode refuses a volume whose node affinity does not match this host.
func (in Input) wrongNode(pv *corev1.PersistentVolume) *problem.Problem {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.NodeName, Labels: in.NodeLabels}}
	terms, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err == nil && terms.Match(node) {
		return nil
	}
	p := problem.Problem{Field: "claimName", Reason: "FailedMount",
		Message: fmt.Sprintf("PersistentVolume %s: no matching NodeSelectorTerms", pv.Name),
		Hint:    fmt.Sprintf("this node has the labels %s; set labels with --node-labels", in.NodeName)}
	if err != nil {
		p.Message, p.Kind = fmt.Sprintf("PersistentVolume %s: %v", pv.Name, err), problem.Manifest
	}
	return &p
}

const (
	localPlugin    = "kubernetes.io~local-volume"
	nfsPlugin      = "kubernetes.io~nfs"
	hostPathPlugin = "kubernetes.io~host-path"
)

// Local bind-mounts a directory of this host into the pod's directory. The bind mount is necessary
// because the mount may have its own options.
type Local struct {
	Path string `json:"path"`
	// true if podrun must create the directory for a claim (Provision)
	Create   bool     `json:"create,omitempty"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Options  []string `json:"options,omitempty"` // mount options of the PersistentVolume
	Private  []string `json:"private,omitempty"` // Input.Private
}

// NFS mounts an NFS export.
type NFS struct {
	Server   string   `json:"server"`
	Path     string   `json:"path"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Options  []string `json:"options,omitempty"` // mount options of the PersistentVolume
}

func planNFS(in Input, v *corev1.Volume) (Volume, problem.List) {
	return in.nfs(v.Name, NFS{Server: v.NFS.Server, Path: v.NFS.Path, ReadOnly: v.NFS.ReadOnly}), nil
}

// nfs returns the Volume that mounts an export. The mount point is the volume directory with the given
// name.
func (in Input) nfs(name string, export NFS) Volume {
	return Volume{
		Plugin: nfsPlugin, HostPath: in.Layout.Pod(in.ID.UID).Volume(nfsPlugin, name), ReadOnly: export.ReadOnly,
		Setup: Setup{Kind: SetupNFS, NFS: &export},
	}
}

// planEphemeral returns a directory for a generic ephemeral volume. A directory is sufficient,
// because no controller provisions a volume of the requested class and size, and the volume is
// deleted with the pod.
func planEphemeral(in Input, v *corev1.Volume) (Volume, problem.List) {
	if t := v.Ephemeral.VolumeClaimTemplate; t != nil && t.Spec.VolumeMode != nil && *t.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return Volume{}, problem.List{{Field: "volumeClaimTemplate.spec.volumeMode", Reason: "UnsupportedVolume",
			Message: "the volume requires a block device, but podrun implements ephemeral volumes as directories",
			Hint:    "use a persistentVolumeClaim that is bound to a local PersistentVolume"}}
	}
	return planEmptyDir(in, &corev1.Volume{Name: v.Name})
}

// planImage returns a Volume without a directory on the host, because the runtime mounts the image.
// podrun passes the image's ID to the runtime.
func planImage(_ Input, v *corev1.Volume) (Volume, problem.List) {
	return Volume{Image: v.Image.Reference, Setup: Setup{Kind: SetupByRuntime}, ReadOnly: true}, nil
}
