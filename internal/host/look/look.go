// Package look has what kubejournal's pages have in common: their stylesheet, and the policy under which they run.
package look

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

// CSS are the colours, the type and the marks of levels. A page has its own rules after it.
//
//go:embed look.css
var CSS string

// Digest returns what a Content-Security-Policy, or an edition, knows a text by.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}
