//go:build !race

package checkpoint

const raced = false
