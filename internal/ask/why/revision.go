package why

// replacedByRevision finds that the StatefulSet or DaemonSet of a pod has another revision, which replaces its pods.
func replacedByRevision(w *asker, o *object, v *Version) *cause {
	ref, ok := v.controller()
	if o.Kind != "Pod" || o.Group != "" || !ok || ref.Group != "apps" {
		return nil
	}
	of := w.one(ref)
	if of == nil || !of.there(v) {
		return nil
	}
	t, ok := outdated(of, v)
	if !ok {
		return nil
	}
	return &cause{
		why: "its " + of.Kind + " was rolled out", lines: []*Version{t.Version}, next: func() { w.rolled(t) },
		several: of.Kind == "DaemonSet" || over(v),
	}
}

// outdated returns the last change of the template of a StatefulSet or DaemonSet, where a pod of it is of another
// revision than it has since, and it replaces such pods.
func outdated(of *object, v *Version) (t change, ok bool) {
	now := of.at(v)
	if now.text("spec", "updateStrategy", "type") != "RollingUpdate" || hashOf(v) == "" {
		return t, false
	}
	switch of.Kind {
	case "StatefulSet":
		update := now.text("status", "updateRevision")
		n, numbered := ordinal(v.Name)
		start, _ := now.number("spec", "ordinals", "start")
		partition, set := now.number("spec", "updateStrategy", "rollingUpdate", "partition")
		replicas, counted := now.number("spec", "replicas")
		switch {
		case update == "" || update == hashOf(v), !numbered || !set || !counted:
			return t, false
		case n < start+partition || n >= start+replicas: // it keeps the one, and gives up the other
			return t, false
		}
	case "DaemonSet":
		if newest(of, v) {
			return t, false
		}
	default:
		return t, false
	}
	return of.changeOf(v, templateChanged)
}

// over reports whether a pod has ended.
func over(v *Version) bool {
	phase := v.text("status", "phase")
	return phase == "Failed" || phase == "Succeeded"
}
