package answer

import "sigs.k8s.io/yaml"

func yamlOf(object []byte) ([]byte, error) { return yaml.JSONToYAML(object) }
