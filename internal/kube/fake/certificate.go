package fake

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is a certificate for loopback that is its own authority, and that of
// client certificates. TLS is not for show: client-go sends no credentials of a
// kubeconfig without it.
type authority struct {
	pem         []byte
	certificate tls.Certificate // with its Leaf
}

func newAuthority() *authority {
	key := newKey()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "kubefake"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der := sign(template, template, key.Public(), key)
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(fmt.Sprintf("fake: parse certificate: %v", err))
	}
	return &authority{
		pem:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
	}
}

// issueClient makes a client certificate, as DER and as PEM with its key.
func (a *authority) issueClient() (der, certificate, key []byte) {
	private := newKey()
	der = sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kubefake", Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate.Leaf, private.Public(), a.certificate.PrivateKey)
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		panic(fmt.Sprintf("fake: encode key: %v", err))
	}
	return der, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(fmt.Sprintf("fake: make key: %v", err))
	}
	return key
}

// sign completes template and signs it; parent is template itself for an
// authority.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.PrivateKey) []byte {
	var serial [8]byte
	rand.Read(serial[:])
	template.SerialNumber = new(big.Int).SetBytes(serial[:])
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		panic(fmt.Sprintf("fake: make certificate: %v", err))
	}
	return der
}
