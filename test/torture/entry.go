package main

import "kubejournal/test/workload"

var (
	// The namespaces of the writers. Secrets of the last one are in no stream.
	namespaces = []string{"torture-a", "torture-b", "torture-c"}

	everyKind = []workload.Kind{workload.ConfigMaps, workload.Secrets, workload.Deployments, workload.Widgets,
		workload.Events}

	// entries are the daemon's. No stream has an object that the API server writes by itself, so that nothing changes
	// once the writers rest.
	entries = []workload.Entry{
		{Kind: workload.ConfigMaps, Selector: "app=web"},
		{Kind: workload.Secrets, Namespaces: namespaces[:2], Changes: true},
		{Kind: workload.Deployments, Changes: true},
		{Kind: workload.Widgets, Changes: true},
		{Kind: workload.Events},
	}
)

func sources() []workload.Source { return workload.Sources(entries) }
