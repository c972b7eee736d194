package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certificate is what the API server writes at its first start: its own certificate and the authority that signed it.
func (c *Cluster) certificate() string { return c.file("apiserver.crt") }

// writeCredentials writes what the API server reads: the administrator's token and the key that signs the tokens of
// service accounts. They outlive its restarts.
func (c *Cluster) writeCredentials() error {
	if c.token == "" {
		c.token = rand.Text()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make service account key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("make service account key: %w", err)
	}
	for name, content := range map[string][]byte{
		"tokens.csv":          []byte(c.token + `,admin,admin,"system:masters"` + "\n"),
		"service-account.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		"audit-policy.yaml":   []byte(c.options.Audit),
	} {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
	}
	return nil
}

// WriteKubeconfig writes a kubeconfig that stands alone, readable by this user only, with the address, the authority
// and the token of config.
func WriteKubeconfig(path string, config *rest.Config) error {
	authority := config.CAData
	if config.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: authority}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// adminClient is for the cluster's own requests. It keeps no connection open, so that nothing of it outlives a server
// or a test. Before the API server's first start it has no certificate to trust: that is an error.
func (c *Cluster) adminClient() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	authority, err := os.ReadFile(c.certificate())
	if err != nil {
		return nil, fmt.Errorf("read server certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("read server certificate: it is not complete")
	}
	c.client = &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
	return c.client, nil
}
