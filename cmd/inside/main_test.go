package inside

import (
	"testing"

	"github.com/podrun/podrun/test/inherited"
)

func TestMain(m *testing.M) { inherited.Main(m) }
