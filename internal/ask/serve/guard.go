package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admit returns an error for a request that is not let in. A page of another site must not read the past through a
// browser: neither by a request of its own origin, nor by a name that it lets lead here.
func (s *Server) admit(r *http.Request) error {
	forbid := func(format string, args ...any) error {
		return failed(http.StatusForbidden, metav1.StatusReasonForbidden, format, args...)
	}
	switch host := hostOf(r.Host); {
	case len(r.URL.RequestURI()) > maxURL:
		return failed(http.StatusRequestURITooLong, metav1.StatusReasonBadRequest, "the request's URL is too long")
	case !isLoopback(host) && !slices.Contains(s.Hosts, host):
		return forbid("the Host header names %q, which is not the address that is listened on", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return forbid("requests of another origin are refused")
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return forbid("requests of another site are refused")
	}
	if s.Token == "" {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok { // browsers ask for a password
		_, token, ok = r.BasicAuth()
	}
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.Token)) // of one length
	if !ok || subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return failed(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	}
	return nil
}

// hostOf returns the host of a Host header, without its port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(strings.Trim(header, "[]"))
}

// isLoopback reports whether a host is this machine by every reading.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NeedsToken reports whether an address to listen on can be reached from elsewhere, so that a token is needed.
func NeedsToken(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err != nil || !isLoopback(strings.ToLower(host))
}

// Reach returns the address by which this machine reaches a listener.
func Reach(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address.String()
}

// HostsOf returns the hosts by which a listener may be named, beside loopback: that of its address and, where it
// listens on all addresses, those of this machine.
func HostsOf(address net.Addr) (hosts []string) {
	host := hostOf(address.String())
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsUnspecified() {
		return []string{host}
	}
	all, _ := net.InterfaceAddrs() // none is known
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}
