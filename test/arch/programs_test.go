package arch

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// programs are the functions that start a program with an argument that is not a literal, each with the origin of
// these arguments. No text of a manifest, an image or an archive may become an argument of a program, unless its form
// was checked and it stands after "--".
var programs = map[string]string{
	"cmd/change.editing.open":                     "the editor of KUBE_EDITOR or EDITOR, and a temporary file of podrun",
	"embedded.spawnProcess":                       "containerd of the bundle, and its configuration file",
	"embedded/userns.Enter":                       "podrun-enter of the bundle, and podrun with its own arguments",
	"embedded/userns.Options.spawnProcess":        "podrun-rootless of the bundle, and podrun's directories",
	"embedded/bundle/podrun-rootless.subordinate": "getsubids of the host, and the user's name",
	"internal/subid.query":                        "getsubids of the host, and the user's name",
	"internal/rootless/entry.init":                "podrun-enter of the bundle, and podrun with its own arguments",
	"internal/credential.Store.Decrypt":           "systemd-creds, and the name of a credential, whose form is checked",
	"imagepull/verifier.run":                      "programs of a directory that only root can change",
	"imagepull/auth.runHelper":                    "programs that docker's configuration of the host and the CredentialProviderConfig name; imagePullSecrets do not",
	"internal/cniplugin.Exec":                     "a plugin of the host's CNI configuration",
	"manifest/input.ReadKustomization":            "the directory of --kustomize, after \"--\"",
	"sandbox/cni.nftOutput":                       "nft of PATH, and names of the host's tables, which nft has printed",
	"sandbox/cni.removeFromTable":                 "nft of PATH",
	"sandbox/cni.removeRules":                     "iptables-save and iptables-restore of PATH",
	"sandbox/cni.OwnNetwork.callServices":         "podrun-net of the bundle",

	"embedded/bundle/podrun-net/oci.Run":              "runc of the bundle",
	"embedded/bundle/podrun-rootless.awaitMaps":       "itself",
	"embedded/bundle/podrun-rootless.runMap":          "newuidmap and newgidmap of the host",
	"embedded/bundle/podrun-rootless.startNamespaces": "itself",
	"serve/systemd.Systemctl.Run":                     "systemctl of PATH, and names of podrun's units",
	"volume.runProgram":                               "mount(8): the server, the path and the options of an NFS export, whose form NFS.problem checks; the source and the target are after \"--\"",
}

// starters are the functions and types of standard packages that start programs.
var starters = map[string][]string{
	"os/exec":               {"Command", "CommandContext", "Cmd"},
	"os":                    {"StartProcess"},
	"syscall":               {"Exec", "ForkExec", "StartProcess"},
	"golang.org/x/sys/unix": {"Exec"},
}

// runsNoManifest reports whether a directory contains only tools and tests, which podrun does not link.
func runsNoManifest(pkg string) bool {
	return slices.Contains([]string{"cri/critest", "internal/treetest"}, pkg) || strings.HasPrefix(pkg+"/", "hack/") || strings.HasPrefix(pkg+"/", "test/")
}

// checkPrograms checks that programs lists every function that starts a program with a variable argument, and no
// other.
func checkPrograms(files tree) []string {
	var out []string
	unused := maps.Clone(programs)
	for _, s := range files {
		if s.test || runsNoManifest(s.pkg) {
			continue
		}
		for _, decl := range s.syntax.Decls {
			name := s.pkg + ".(a variable)"
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = s.pkg + "." + receiver(f) + f.Name.Name
			}
			for _, n := range s.starts(decl) {
				if delete(unused, name); programs[name] == "" {
					out = append(out, s.at(n)+": "+name+" starts a program with a variable argument: check that it is no text of a manifest, and add the function to programs")
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		out = append(out, name+": does not start a program with a variable argument: remove it from programs")
	}
	return out
}

// starts returns the places in a declaration that start a program, except calls with literals only.
func (s *source) starts(decl ast.Decl) (out []ast.Node) {
	imports := s.imports()
	literal := map[ast.Expr]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			// the type *exec.Cmd starts nothing
			literal[n.X] = true
		case *ast.CallExpr:
			literal[n.Fun] = literalArguments(n)
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && slices.Contains(starters[imports[pkg.Name]], n.Sel.Name) && !literal[n] {
				out = append(out, n)
			}
		}
		return true
	})
	return out
}

// literalArguments reports whether the arguments of a call are literals, except for a context in the first place.
func literalArguments(call *ast.CallExpr) bool {
	for i, a := range call.Args {
		_, ok := a.(*ast.BasicLit)
		if first, isName := a.(*ast.Ident); !ok && !(i == 0 && isName && strings.HasSuffix(strings.ToLower(first.Name), "ctx")) {
			return false
		}
	}
	return true
}
