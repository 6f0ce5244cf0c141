package hostfile

import "os"

// IsDir reports whether path is a directory. It returns false for a symbolic link to a
// directory.
func IsDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
