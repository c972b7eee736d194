package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	userNamespace = "kube-system" // of the service accounts that users are
	tokenSeconds  = 24 * 60 * 60
	markerGroup   = "marker.kubejournal.test" // of the rule that Grant waits for
)

// User makes a user who may do what the rules say in all namespaces, and nothing else beyond what every user may
// (discovery, questions about its own rights). It returns the path of the user's kubeconfig. The user is the service
// account of that name in kube-system, as a daemon in a cluster would be, so the name must do for one.
func (c *Cluster) User(ctx context.Context, name string, rules []rbacv1.PolicyRule) (kubeconfig string, err error) {
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: userNamespace},
	}
	path := "/api/v1/namespaces/" + userNamespace + "/serviceaccounts"
	if err := c.call(ctx, http.MethodPost, path, account, nil); err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	seconds := int64(tokenSeconds)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.call(ctx, http.MethodPost, path+"/"+name+"/token", token, token); err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	kubeconfig = c.file("user-" + name + ".kubeconfig")
	config := c.RESTConfig()
	config.BearerToken = token.Status.Token
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	return kubeconfig, c.Grant(ctx, name, "", rules)
}

// Grant replaces what the user may do in a namespace, or with "" what it may do in all of them; no rules take it all
// away. It returns when the API server goes by it.
func (c *Cluster) Grant(ctx context.Context, name, namespace string, rules []rbacv1.PolicyRule) error {
	c.mu.Lock()
	c.grants++
	marker := "grant-" + strconv.Itoa(c.grants)
	c.mu.Unlock()
	// The server learns of roles by a watch of its own. Once it allows what only this version of the role allows, it
	// has this version.
	rules = append([]rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{markerGroup},
		Resources: []string{marker}}}, rules...)
	if err := c.applyRole(ctx, name, namespace, rules); err != nil {
		return fmt.Errorf("grant rights to %s: %w", name, err)
	}
	question := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + userNamespace + ":" + name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: markerGroup,
			Resource: marker},
	}}
	err := c.apiserver.wait(ctx, func(ctx context.Context) error {
		var answer authorizationv1.SubjectAccessReview
		err := c.call(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &question, &answer)
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("not yet in force: %s", answer.Status.Reason)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("grant rights to %s: %w", name, err)
	}
	return nil
}

// applyRole makes or replaces the user's role and its binding, both called user:NAME.
func (c *Cluster) applyRole(ctx context.Context, name, namespace string, rules []rbacv1.PolicyRule) error {
	const api = "/apis/rbac.authorization.k8s.io/v1"
	scope, role, roles := "", "ClusterRole", "/clusterroles/"
	binding, bindings := "ClusterRoleBinding", "/clusterrolebindings/"
	if namespace != "" {
		scope, role, roles = "/namespaces/"+namespace, "Role", "/roles/"
		binding, bindings = "RoleBinding", "/rolebindings/"
	}
	meta := metav1.ObjectMeta{Name: "user:" + name, Namespace: namespace}
	apply := meta.Name + "?fieldManager=cluster&force=true"
	err := c.call(ctx, http.MethodPatch, api+scope+roles+apply, &rbacv1.Role{ // a ClusterRole has the same form
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: role},
		ObjectMeta: meta,
		Rules:      rules,
	}, nil)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPatch, api+scope+bindings+apply, &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: binding},
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role, Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: userNamespace}},
	}, nil)
}
