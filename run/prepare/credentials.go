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
// Standard is set: the directory of credentials also has those of services of the host. An ordinary user can use none, because
// only root can decrypt them.
func (p *Plan) checkCredentials(level string) (out problem.List) {
	user := p.Facts.User
	if user == nil && (level == "" || level == string(api.LevelPrivileged)) {
		return nil
	}
	for _, s := range p.Checkpoint.Secrets {
		sealed := credential.Of(s)
		for _, key := range slices.Sorted(maps.Keys(sealed)) {
			found := problem.Problem{
				Object: "Secret " + s.Namespace + "/" + s.Name,
				Field:  "metadata.annotations[" + credential.Annotation + key + "]",
				Reason: "CredentialOfHost",
			}
			switch {
			case user != nil:
				found.Message = "user " + user.Name + " cannot use credentials of the host, which only root can decrypt"
				found.Hint = "put the value into the Secret, or use sudo"
			case !credential.Permitted(p.ID.Namespace, sealed[key]):
				found.Message = fmt.Sprintf("--pod-security=%s permits only credentials whose names begin with %s", level, credential.Prefix(p.ID.Namespace))
				found.Hint = "seal the credential under such a name"
			default:
				continue
			}
			out = append(out, found)
		}
	}
	return out
}
