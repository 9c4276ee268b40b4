package ingress

// UploadConfig is which bodies are passed on as they come, without being read.
type UploadConfig struct{}

// DefaultUpload is that of a gateway that was given no flags.
func DefaultUpload() UploadConfig { return UploadConfig{} }

// Validate reports every value out of range, each by its flag.
func (UploadConfig) Validate() error { return nil }
