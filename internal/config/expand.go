package config

import (
	"fmt"
	"strings"
)

// expand puts the environment's values in place of $(NAME) in selectors and namespaces, named or excluded. The
// form and its escape, $$(NAME) for a literal $(NAME), are those of a container's env in a pod.
func (c *Config) expand(env Env) Faults {
	var faults Faults
	for i := range c.Resources {
		r := &c.Resources[i]
		put := func(field string, value *string) {
			expanded, missing := expandOne(*value, env)
			if missing == "" {
				*value = expanded
				return
			}
			faults = append(faults, c.src.fault(r.Entry, field, missing))
			c.src.faulted[r.Entry+"."+field] = struct{}{}
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
		i := strings.Index(text, "$(")
		if i < 0 {
			b.WriteString(text)
			return b.String(), ""
		}
		end := strings.IndexByte(text[i:], ')')
		if end < 0 {
			return "", fmt.Sprintf("%q has no closing bracket; write $(NAME)", text[i:])
		}
		name := text[i+2 : i+end]
		escaped := i > 0 && text[i-1] == '$'
		switch {
		case escaped:
			b.WriteString(text[:i-1])
			b.WriteString(text[i : i+end+1])
		case name == "":
			return "", "$() names no variable; write $(NAME)"
		default:
			value, ok := env(name)
			if !ok {
				return "", fmt.Sprintf("$(%s) is not set in the environment; set it, or write $$(%s) for the text itself", name, name)
			}
			b.WriteString(text[:i])
			b.WriteString(value)
		}
		text = text[i+end+1:]
	}
}
