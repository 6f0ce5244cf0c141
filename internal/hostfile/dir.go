package hostfile

import "os"

// IsDir reports whether path is a directory, rather than a symbolic link to one.
func IsDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
