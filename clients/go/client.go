// Package hitherto is the Go client of Hitherto, long-term memory for AI assistants.
//
//	m, err := hitherto.New()
//	…
//	_, err = m.SaveMemory(ctx, "ana", "Ana lives in Porto.")
//	told, err := m.GetContext(ctx, "ana", "Where does she live?")
//	fmt.Println(told.GetPromptBlock())
//
// Each call has a deadline, which its retries share: that of its context, else WithTimeout, else 10 s for reads and
// 30 s for writes. A call is repeated where that is safe. Reads include what the same client has written for the
// user before, and what was learnt by jobs that it has seen end, even if reads go to a replica. A failed call
// returns an *Error.
package hitherto

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "hitherto.com/go/hitherto/v1"
)

// Client calls both services. Its methods may be called from any goroutine. Close it.
type Client struct {
	// The generated stubs of every RPC, with the same credential, deadlines, retries and errors. They do not send
	// consistency tokens.
	Retrieval   pb.RetrievalServiceClient
	Extraction  pb.ExtractionServiceClient
	Memory      pb.MemoryServiceClient
	Session     pb.SessionServiceClient
	Maintenance pb.MaintenanceServiceClient
	Privacy     pb.PrivacyServiceClient

	// Jobs follows the work in the background.
	Jobs *Jobs

	reading, writing *grpc.ClientConn
	writes           endpoint
	tokens           *ownWrites
}

// New returns a client, which connects with its first call.
//
// What no option sets comes from the environment: HITHERTO_RETRIEVAL_ADDRESS (127.0.0.1:50051),
// HITHERTO_EXTRACTION_ADDRESS (127.0.0.1:50052), HITHERTO_API_KEY or HITHERTO_TOKEN (none), HITHERTO_TLS_CA_FILE
// (none: no TLS), and HITHERTO_TLS_CLIENT_CERTIFICATE_FILE with HITHERTO_TLS_CLIENT_KEY_FILE (none).
func New(options ...Option) (*Client, error) {
	s := newSettings(options)
	if err := s.checkAddresses(); err != nil {
		return nil, err
	}
	credential, err := s.credential()
	if err != nil {
		return nil, err
	}
	transport, err := s.transport()
	if err != nil {
		return nil, err
	}
	reads := endpoint{"retrieval", s.retrieval, credential, s.timeout, s.retry}
	writes := endpoint{"extraction", s.extraction, credential, s.timeout, s.retry}
	reading, err := reads.dial(transport)
	if err != nil {
		return nil, err
	}
	writing, err := writes.dial(transport)
	if err != nil {
		return nil, errors.Join(err, reading.Close())
	}
	client := &Client{
		Retrieval:   pb.NewRetrievalServiceClient(reading),
		Extraction:  pb.NewExtractionServiceClient(writing),
		Memory:      pb.NewMemoryServiceClient(writing),
		Session:     pb.NewSessionServiceClient(writing),
		Maintenance: pb.NewMaintenanceServiceClient(writing),
		Privacy:     pb.NewPrivacyServiceClient(writing),
		reading:     reading,
		writing:     writing,
		writes:      writes,
		tokens:      &ownWrites{},
	}
	client.Jobs = &Jobs{client.Extraction, writes, client.tokens}
	return client, nil
}

// Close closes the connections; calls in flight fail.
func (c *Client) Close() error { return errors.Join(c.reading.Close(), c.writing.Close()) }

// call is a method of a stub.
type call[Q, A any] func(context.Context, Q, ...grpc.CallOption) (A, error)

// read makes a call whose reply includes this client's own writes for the user.
func read[Q proto.Message, A any](
	ctx context.Context, tokens *ownWrites, user string, request Q, call call[Q, A],
) (A, error) {
	token := tokens.of(user)
	setText(request, "consistency_token", token)
	reply, err := call(ctx, request)
	if token == "" || !errors.Is(err, Reason("INVALID_CONSISTENCY_TOKEN")) {
		return reply, err
	}
	// It was made with a secret that the services no longer have.
	tokens.drop(user)
	setText(request, "consistency_token", "")
	return call(ctx, request)
}

// write makes a call that later reads of the user include.
func write[Q, A proto.Message](
	ctx context.Context, tokens *ownWrites, user string, request Q, call call[Q, A],
) (A, error) {
	begun := tokens.begin()
	reply, err := call(ctx, request)
	if err == nil {
		token, _ := text(reply, "consistency_token")
		tokens.note(user, token, begun)
	}
	return reply, err
}

func notFound(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == codes.NotFound && failed.Reason != ""
}
