package config

import (
	"fmt"
	"strings"
)

// expand puts the environment's values in place of $(NAME) in selectors and namespaces, included or excluded. The
// form and its escape, $$(NAME) for a literal $(NAME), are those of a container's env in a pod.
func (c *Config) expand(env Env) Faults {
	var faults Faults
	for i := range c.Resources {
		r := &c.Resources[i]
		put := func(field string, value *string) {
			expanded, msg := expandOne(*value, env)
			if msg == "" {
				*value = expanded
				return
			}
			f := c.Fault(r.Entry, field, msg)
			c.src.faulted[f.Path] = true
			faults = append(faults, f)
		}
		put("labelSelector", &r.LabelSelector)
		put("fieldSelector", &r.FieldSelector)
		for j := range r.Namespaces {
			put(fmt.Sprintf("namespaces[%d]", j), &r.Namespaces[j])
		}
		for j := range r.ExcludeNamespaces {
			put(fmt.Sprintf("excludeNamespaces[%d]", j), &r.ExcludeNamespaces[j])
		}
	}
	return faults
}

// expandOne returns the text with its variables replaced, or what is wrong with one of them.
func expandOne(text string, env Env) (expanded, fault string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$(")
		name, after, closed := strings.Cut(rest, ")")
		literal, escaped := strings.CutSuffix(before, "$")
		switch value, set := env(name); {
		case !found:
			b.WriteString(text)
			return b.String(), ""
		case !closed:
			return "", fmt.Sprintf("%q has no closing bracket; write $(NAME)", "$("+rest)
		case escaped:
			b.WriteString(literal + "$(" + name + ")")
		case name == "":
			return "", "$() names no variable; write $(NAME)"
		case !set:
			return "", fmt.Sprintf("$(%s) is not set in the environment; set it, or write $$(%s) for the text itself", name, name)
		default:
			b.WriteString(before + value)
		}
		text = after
	}
}
