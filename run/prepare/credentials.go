package prepare

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/pod-security-admission/api"

	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/problem"
)

// checkCredentials refuses the credentials of the host that the author of the manifest may not use, if a Pod Security
// Standard is set: the directory of credentials also has those of services of the host.
func (p *Plan) checkCredentials(level string) (out problem.List) {
	if level == "" || level == string(api.LevelPrivileged) {
		return nil
	}
	for _, s := range p.Checkpoint.Secrets {
		sealed := credential.Of(s)
		for _, key := range slices.Sorted(maps.Keys(sealed)) {
			if name := sealed[key]; !credential.Permitted(p.ID.Namespace, name) {
				out = append(out, problem.Problem{Object: "Secret " + s.Namespace + "/" + s.Name, Field: "metadata.annotations[" + credential.Annotation + key + "]", Reason: "CredentialOfHost",
					Message: fmt.Sprintf("--pod-security=%s permits only credentials whose names begin with %s", level, credential.Prefix(p.ID.Namespace)),
					Hint:    "seal the credential under such a name"})
			}
		}
	}
	return out
}
