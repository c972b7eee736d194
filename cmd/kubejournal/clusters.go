package main

import (
	"context"
	"strings"

	"kubejournal/internal/ask/cluster"
)

// clusterNames completes the last of several clusters separated by commas.
func clusterNames(ctx context.Context, paths, _ []string, word string) (names []string) {
	all, _ := cluster.Group(ctx, paths, func(string) {}) // or none
	for _, c := range all {
		names = append(names, word[:strings.LastIndexByte(word, ',')+1]+c.Name)
	}
	return names
}
