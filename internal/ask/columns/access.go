package columns

import (
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// accessPrinters are those of who may do what, and of what extends the API. Some descriptions are those of v1beta1, as
// on the server.
func accessPrinters() map[string]*Printer {
	request := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	subjects := func(kind string) []metav1.TableColumnDefinition {
		return []metav1.TableColumnDefinition{
			wide(column("Users", "Users in the "+kind)),
			wide(column("Groups", "Groups in the "+kind)),
			wide(column("ServiceAccounts", "ServiceAccounts in the "+kind)),
		}
	}
	webhooks := integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration")
	paramKindColumn := column("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy")
	policyName := column("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to")
	paramRefColumn := column("ParamRef", "ParamRef indicates the param resource which sets the configuration param")
	return map[string]*Printer{
		"roles.v1.rbac.authorization.k8s.io":        plain(),
		"clusterroles.v1.rbac.authorization.k8s.io": plain(),
		"rolebindings.v1.rbac.authorization.k8s.io": of(func(o *rbacv1.RoleBinding, at clock) []any {
			return binding(o.ObjectMeta, o.RoleRef, o.Subjects, at)
		},
			append([]metav1.TableColumnDefinition{
				name, column("Role", rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"]), age,
			}, subjects("roleBinding")...)...,
		),
		"clusterrolebindings.v1.rbac.authorization.k8s.io": of(func(o *rbacv1.ClusterRoleBinding, at clock) []any {
			return binding(o.ObjectMeta, o.RoleRef, o.Subjects, at)
		},
			append([]metav1.TableColumnDefinition{
				name, column("Role", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]), age,
			}, subjects("clusterRoleBinding")...)...,
		),
		"certificatesigningrequests.v1.certificates.k8s.io": of(certificate,
			name, age,
			column("SignerName", request["signerName"]),
			column("Requestor", request["request"]),
			column("RequestedDuration", request["expirationSeconds"]),
			column("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		),
		"customresourcedefinitions.v1.apiextensions.k8s.io": plain(),
		"apiservices.v1.apiregistration.k8s.io": of(apiServiceCells,
			name,
			column("Service", "The reference to the service that hosts this API endpoint."),
			column("Available", "Whether this service is available."),
			age,
		),
		"mutatingwebhookconfigurations.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.MutatingWebhookConfiguration, at clock) []any {
				return []any{o.Name, int64(len(o.Webhooks)), at.age(o.ObjectMeta)}
			}, name, webhooks, age,
		),
		"validatingwebhookconfigurations.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.ValidatingWebhookConfiguration, at clock) []any {
				return []any{o.Name, int64(len(o.Webhooks)), at.age(o.ObjectMeta)}
			}, name, webhooks, age,
		),
		"mutatingadmissionpolicies.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.MutatingAdmissionPolicy, at clock) []any {
				return []any{o.Name, int64(len(o.Spec.Mutations)), paramKind(o.Spec.ParamKind), at.age(o.ObjectMeta)}
			},
			name,
			integer("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
			paramKindColumn, age,
		),
		"validatingadmissionpolicies.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.ValidatingAdmissionPolicy, at clock) []any {
				return []any{o.Name, int64(len(o.Spec.Validations)), paramKind(o.Spec.ParamKind), at.age(o.ObjectMeta)}
			},
			name,
			integer("Validations", "Validations indicates the number of validation rules defined in this configuration"),
			paramKindColumn, age,
		),
		"mutatingadmissionpolicybindings.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.MutatingAdmissionPolicyBinding, at clock) []any {
				return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), at.age(o.ObjectMeta)}
			}, name, policyName, paramRefColumn, age,
		),
		"validatingadmissionpolicybindings.v1.admissionregistration.k8s.io": of(
			func(o *admissionv1.ValidatingAdmissionPolicyBinding, at clock) []any {
				return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), at.age(o.ObjectMeta)}
			}, name, policyName, paramRefColumn, age,
		),
	}
}

func binding(o metav1.ObjectMeta, role rbacv1.RoleRef, subjects []rbacv1.Subject, at clock) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		o.Name, role.Kind + "/" + role.Name, at.age(o),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}

func certificate(o *certificatesv1.CertificateSigningRequest, at clock) []any {
	lifetime := "<none>"
	if seconds := o.Spec.ExpirationSeconds; seconds != nil {
		lifetime = duration.HumanDuration(time.Duration(*seconds) * time.Second)
	}
	has := make(map[certificatesv1.RequestConditionType]bool)
	for _, c := range o.Status.Conditions {
		has[c.Type] = true
	}
	condition := "Pending"
	switch {
	case has[certificatesv1.CertificateDenied]:
		condition = "Denied"
	case has[certificatesv1.CertificateApproved]:
		condition = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		condition += ",Failed"
	}
	if len(o.Status.Certificate) > 0 {
		condition += ",Issued"
	}
	return []any{
		o.Name, at.age(o.ObjectMeta), or(o.Spec.SignerName, "<none>"), o.Spec.Username, lifetime, condition,
	}
}

// apiService is what is printed of an APIService, whose type is not one of k8s.io/api.
type apiService struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func apiServiceCells(o *apiService, at clock) []any {
	service, available := "Local", "Unknown"
	if s := o.Spec.Service; s != nil {
		service = s.Namespace + "/" + s.Name
	}
	for _, c := range o.Status.Conditions {
		if c.Type != "Available" {
			continue
		}
		available = string(c.Status)
		if c.Status != metav1.ConditionTrue && c.Reason != "" {
			available = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		break
	}
	return []any{o.Name, service, available, at.age(o.ObjectMeta)}
}

func paramKind(kind *admissionv1.ParamKind) string {
	if kind == nil {
		return "<unset>"
	}
	return kind.APIVersion + "/" + kind.Kind
}

// paramRef prints what a binding's parameters are taken from. Whether they have a namespace is not known without one.
func paramRef(ref *admissionv1.ParamRef) string {
	switch {
	case ref != nil && ref.Name != "":
		return or(ref.Namespace, "*") + "/" + ref.Name
	case ref != nil && ref.Selector != nil:
		return ref.Selector.String()
	}
	return "<unset>"
}
