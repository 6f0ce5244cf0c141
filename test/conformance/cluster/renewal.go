package main

import (
	"context"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// permitRenewal permits nodes to renew their client certificates: kube-controller-manager then approves their
// requests. kubeadm creates the same binding.
func permitRenewal(ctx context.Context, c config) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-certificate-rotation"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: "system:nodes"}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // the data survive a restart
		return nil
	}
	return err
}
