package columns

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func networkPrinters() map[string]*Printer {
	service := corev1.ServiceSpec{}.SwaggerDoc()
	slice := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return map[string]*Printer{
		"services.v1.": of(func(o *corev1.Service, at clock) []any {
			ip := o.Spec.ClusterIP
			if len(o.Spec.ClusterIPs) > 0 {
				ip = o.Spec.ClusterIPs[0]
			}
			return []any{
				o.Name, string(o.Spec.Type), or(ip, "<none>"), externalIP(o), or(servicePorts(o.Spec.Ports), "<none>"),
				at.age(o.ObjectMeta), labels.FormatLabels(o.Spec.Selector),
			}
		},
			name,
			column("Type", service["type"]),
			column("Cluster-IP", service["clusterIP"]),
			column("External-IP", service["externalIPs"]),
			column("Port(s)", service["ports"]),
			age,
			wide(column("Selector", service["selector"])),
		),
		"endpoints.v1.": of(endpoints,
			name,
			column("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), //nolint:staticcheck // journals have them
			age,
		),
		"endpointslices.v1.discovery.k8s.io": of(func(o *discoveryv1.EndpointSlice, at clock) []any {
			var ports, addresses []string
			for _, p := range o.Ports {
				port := ""
				if p.Port != nil {
					port = strconv.Itoa(int(*p.Port))
				} else if p.Name != nil {
					port = *p.Name
				}
				ports = append(ports, port)
			}
			for _, e := range o.Endpoints {
				addresses = append(addresses, e.Addresses...)
			}
			return []any{
				o.Name, string(o.AddressType), or(first(3, ",", ports), "<unset>"),
				or(first(3, ",", addresses), "<unset>"), at.age(o.ObjectMeta),
			}
		},
			name,
			column("AddressType", slice["addressType"]),
			column("Ports", slice["ports"]),
			column("Endpoints", slice["endpoints"]),
			age,
		),
		"ingresses.v1.networking.k8s.io": of(func(o *networkingv1.Ingress, at clock) []any {
			class, ports := "<none>", "80"
			if o.Spec.IngressClassName != nil {
				class = *o.Spec.IngressClassName
			}
			if len(o.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			var balancers []string
			for _, b := range o.Status.LoadBalancer.Ingress {
				balancers = append(balancers, or(b.IP, b.Hostname))
			}
			return []any{o.Name, class, hosts(o.Spec.Rules), distinct(balancers), ports, at.age(o.ObjectMeta)}
		},
			name,
			column("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			column("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			column("Address", "Address is a list containing ingress points for the load-balancer"),
			column("Ports", "Ports of TLS configurations that open"),
			age,
		),
		"ingressclasses.v1.networking.k8s.io": of(func(o *networkingv1.IngressClass, at clock) []any {
			name, parameters := o.Name, "<none>"
			if o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				name += " (default)"
			}
			if p := o.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return []any{name, o.Spec.Controller, parameters, at.age(o.ObjectMeta)}
		},
			name,
			column("Controller", "Controller that is responsible for handling this class"),
			column("Parameters", "A reference to a resource with additional parameters"),
			age,
		),
		"networkpolicies.v1.networking.k8s.io": of(func(o *networkingv1.NetworkPolicy, at clock) []any {
			return []any{o.Name, metav1.FormatLabelSelector(&o.Spec.PodSelector), at.age(o.ObjectMeta)}
		},
			name,
			column("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
			age,
		),
		"servicecidrs.v1.networking.k8s.io": of(func(o *networkingv1.ServiceCIDR, at clock) []any {
			return []any{o.Name, strings.Join(o.Spec.CIDRs, ","), at.age(o.ObjectMeta)}
		},
			name,
			column("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
			age,
		),
		"ipaddresses.v1.networking.k8s.io": of(func(o *networkingv1.IPAddress, at clock) []any {
			parent := "<none>"
			if p := o.Spec.ParentRef; p != nil {
				parent = strings.ToLower(schema.GroupResource{Group: p.Group, Resource: p.Resource}.String())
				if p.Namespace != "" {
					parent += "/" + p.Namespace
				}
				parent += "/" + p.Name
			}
			return []any{o.Name, parent, at.age(o.ObjectMeta)} // an age that has no column
		},
			name,
			column("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
		),
	}
}

func externalIP(o *corev1.Service) string {
	switch o.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return or(strings.Join(o.Spec.ExternalIPs, ","), "<none>")
	case corev1.ServiceTypeLoadBalancer:
		var balancers []string
		for _, b := range o.Status.LoadBalancer.Ingress {
			balancers = append(balancers, or(b.IP, b.Hostname))
		}
		all := o.Spec.ExternalIPs
		if b := distinct(balancers); b != "" {
			all = append([]string{b}, all...)
		}
		return or(strings.Join(all, ","), "<pending>")
	case corev1.ServiceTypeExternalName:
		return o.Spec.ExternalName
	}
	return "<unknown>"
}

// distinct joins what is not empty, sorted, each once.
func distinct(list []string) string {
	slices.Sort(list)
	list = slices.Compact(list)
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), ",")
}

func servicePorts(ports []corev1.ServicePort) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			list[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return strings.Join(list, ",")
}

// endpoints lists the addresses that are ready, with each port.
func endpoints(o *corev1.Endpoints, at clock) []any { //nolint:staticcheck // deprecated, and journals have them
	if len(o.Subsets) == 0 {
		return []any{o.Name, "<none>", at.age(o.ObjectMeta)}
	}
	var list []string
	for _, s := range o.Subsets {
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				list = append(list, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				list = append(list, a.IP)
			}
		}
	}
	return []any{o.Name, first(3, ",", list), at.age(o.ObjectMeta)}
}

// hosts lists the hosts of rules. How many more there are counts all rules, also those without a host.
func hosts(rules []networkingv1.IngressRule) string {
	const limit = 3
	var list []string
	for _, r := range rules {
		if len(list) == limit {
			return andMore(strings.Join(list, ","), len(rules)-limit)
		}
		if r.Host != "" {
			list = append(list, r.Host)
		}
	}
	return or(strings.Join(list, ","), "*")
}
