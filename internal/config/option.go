package config

// Option is a key of the config that a flag and an environment variable set too.
type Option struct {
	Key  string // dotted key of the file
	Flag string // without the dashes
	Env  string
}

// Options lists them all. The command line derives its flags from it.
var Options = []Option{
	{Key: "kubernetes.kubeconfig", Flag: "kubeconfig", Env: "KUBEJOURNAL_KUBECONFIG"},
	{Key: "kubernetes.context", Flag: "context", Env: "KUBEJOURNAL_CONTEXT"},
	{Key: "output.path", Flag: "output", Env: "KUBEJOURNAL_OUTPUT"},
	{Key: "checkpoint.path", Flag: "checkpoint", Env: "KUBEJOURNAL_CHECKPOINT"},
	{Key: "listen", Flag: "listen", Env: listenEnv},
	{Key: "log.level", Flag: "log-level", Env: "KUBEJOURNAL_LOG_LEVEL"},
}

// NamespaceEnv is the variable behind -n, which belongs to no single key.
const NamespaceEnv = "KUBEJOURNAL_NAMESPACE"

const listenEnv = "KUBEJOURNAL_LISTEN"

// Env looks up a variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// Overrides are the arguments and flags of the command line.
type Overrides struct {
	Flags     map[string]string // name of a flag in Options -> its value; only the flags that were given
	Namespace string            // -n; "" when not given
	Resources []string          // arguments: they take the place of the file's resources
}
