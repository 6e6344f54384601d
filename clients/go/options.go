package hitherto

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	defaultRetrieval  = "127.0.0.1:50051"
	defaultExtraction = "127.0.0.1:50052"
)

// TokenSource returns the JWT for the next call. It is called for every call, from any goroutine, so it can
// return a new token before the old one ends.
type TokenSource func(context.Context) (string, error)

// Option sets what New otherwise takes from the environment.
type Option func(*settings)

type settings struct {
	retrieval, extraction     string
	apiKey                    string
	token                     TokenSource
	caFile, certFile, keyFile string
	timeout                   time.Duration
	retry                     RetryPolicy
}

// WithRetrieval sets the host:port of the retrieval service.
func WithRetrieval(address string) Option { return func(s *settings) { s.retrieval = address } }

// WithExtraction sets the host:port of the extraction service.
func WithExtraction(address string) Option { return func(s *settings) { s.extraction = address } }

// WithAPIKey sets the key that `hitherto keys create` printed.
func WithAPIKey(key string) Option { return func(s *settings) { s.apiKey = key } }

// WithToken sets a JWT, if the services accept tokens.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource sets where the JWT of each call comes from.
func WithTokenSource(source TokenSource) Option { return func(s *settings) { s.token = source } }

// WithTLS sets the PEM file with the authority that signed the services' certificates. Without it, and without
// HITHERTO_TLS_CA_FILE, there is no TLS.
func WithTLS(caFile string) Option { return func(s *settings) { s.caFile = caFile } }

// WithClientCertificate sets the PEM files with a certificate and its key, if the services ask for one.
func WithClientCertificate(certificateFile, keyFile string) Option {
	return func(s *settings) { s.certFile, s.keyFile = certificateFile, keyFile }
}

// WithTimeout sets the time for every call whose context has no deadline, retries included. The default is 10 s
// for reads and 30 s for writes.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithRetry sets when failed calls are made again. A field of the policy that is 0 keeps its default.
func WithRetry(policy RetryPolicy) Option { return func(s *settings) { s.retry = policy } }

func newSettings(options []Option) *settings {
	s := &settings{retry: DefaultRetryPolicy()}
	for _, option := range options {
		option(s)
	}
	// A policy without waits would ask a service that is away again and again at once.
	usual := DefaultRetryPolicy()
	s.retry.Attempts = cmp.Or(s.retry.Attempts, usual.Attempts)
	s.retry.FirstWait = cmp.Or(s.retry.FirstWait, usual.FirstWait)
	s.retry.LongestWait = cmp.Or(s.retry.LongestWait, usual.LongestWait)
	if s.apiKey == "" && s.token == nil {
		s.apiKey = os.Getenv("HITHERTO_API_KEY")
		if token := strings.TrimSpace(os.Getenv("HITHERTO_TOKEN")); token != "" {
			WithToken(token)(s)
		}
	}
	for _, unset := range []struct {
		value          *string
		name, fallback string
	}{
		{&s.retrieval, "HITHERTO_RETRIEVAL_ADDRESS", defaultRetrieval},
		{&s.extraction, "HITHERTO_EXTRACTION_ADDRESS", defaultExtraction},
		{&s.caFile, "HITHERTO_TLS_CA_FILE", ""},
		{&s.certFile, "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE", ""},
		{&s.keyFile, "HITHERTO_TLS_CLIENT_KEY_FILE", ""},
	} {
		if *unset.value == "" {
			*unset.value = os.Getenv(unset.name)
		}
		if *unset.value == "" {
			*unset.value = unset.fallback
		}
	}
	return s
}

// checkAddresses refuses the address of a web page, of which gRPC would only say that it has too many colons.
func (s *settings) checkAddresses() error {
	for _, address := range []string{s.retrieval, s.extraction} {
		scheme, rest, found := strings.Cut(address, "://")
		if found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
			return fmt.Errorf("hitherto: the address of a service is HOST:PORT, such as %s, and not %s",
				strings.TrimRight(rest, "/"), address)
		}
	}
	return nil
}

// credential returns what to send with each call, or nil for nothing.
func (s *settings) credential() (TokenSource, error) {
	key := strings.TrimSpace(s.apiKey)
	switch {
	case key != "" && s.token != nil:
		return nil, errors.New("hitherto: there are an API key and a token: give one of them, or unset " +
			"HITHERTO_API_KEY or HITHERTO_TOKEN")
	case s.token != nil:
		return s.token, nil
	case key == "":
		return nil, nil
	case !sendable(key):
		return nil, errors.New("hitherto: the API key holds characters that no key has: copy it again as " +
			"`hitherto keys create` printed it")
	}
	return func(context.Context) (string, error) { return key, nil }, nil
}

func sendable(credential string) bool {
	return credential != "" && !strings.ContainsFunc(credential, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (s *settings) transport() (credentials.TransportCredentials, error) {
	if (s.certFile == "") != (s.keyFile == "") {
		return nil, errors.New("hitherto: a certificate goes with its key: set " +
			"HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and HITHERTO_TLS_CLIENT_KEY_FILE, or neither")
	}
	if s.caFile == "" {
		if s.certFile != "" {
			return nil, errors.New("hitherto: a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE")
		}
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(s.caFile)
	if err != nil {
		return nil, fmt.Errorf("hitherto: the file with the TLS authority cannot be read: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("hitherto: %s holds no certificate in PEM", s.caFile)
	}
	if s.certFile != "" {
		pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, fmt.Errorf("hitherto: the client certificate cannot be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return strings.HasPrefix(address, "unix:")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
