// A client made from protos/ alone: submits one transcript, watches its job to the end and prints
// what an assistant would be told about the user, as one line of JSON on stdout.
//
// Environment: HITHERTO_EXTRACTION_ADDRESS and HITHERTO_RETRIEVAL_ADDRESS (host:port),
// HITHERTO_TRANSCRIPT (a hitherto.v1.Transcript as JSON), HITHERTO_QUERY (optional),
// HITHERTO_API_KEY (optional), HITHERTO_DEADLINE_SECONDS (for the whole run, default 60).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hitherto "hitherto-go-client-test/stubs/hitherto/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	transcript := &hitherto.Transcript{}
	if err := protojson.Unmarshal([]byte(os.Getenv("HITHERTO_TRANSCRIPT")), transcript); err != nil {
		return fmt.Errorf("HITHERTO_TRANSCRIPT is no transcript: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline())
	defer cancel()
	if key := os.Getenv("HITHERTO_API_KEY"); key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}

	writing, err := dial("HITHERTO_EXTRACTION_ADDRESS")
	if err != nil {
		return err
	}
	defer writing.Close()
	extraction := hitherto.NewExtractionServiceClient(writing)
	submitted, err := extraction.SubmitTranscripts(ctx, &hitherto.SubmitTranscriptsRequest{
		Transcripts: []*hitherto.Transcript{transcript},
	})
	if err != nil {
		return err
	}
	job, states, err := watch(ctx, extraction, submitted.GetJobs()[0].GetId())
	if err != nil {
		return err
	}

	reading, err := dial("HITHERTO_RETRIEVAL_ADDRESS")
	if err != nil {
		return err
	}
	defer reading.Close()
	query := os.Getenv("HITHERTO_QUERY")
	told, err := hitherto.NewRetrievalServiceClient(reading).GetContext(ctx, &hitherto.GetContextRequest{
		UserId:           transcript.GetUserId(),
		Query:            query,
		ConsistencyToken: job.GetConsistencyToken(),
	})
	if err != nil {
		return err
	}
	return print(job, states, told)
}

func deadline() time.Duration {
	seconds, err := strconv.Atoi(os.Getenv("HITHERTO_DEADLINE_SECONDS"))
	if err != nil {
		seconds = 60
	}
	return time.Duration(seconds) * time.Second
}

func dial(variable string) (*grpc.ClientConn, error) {
	address := os.Getenv(variable)
	if address == "" {
		return nil, fmt.Errorf("set %s; the head of this file lists what is needed", variable)
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func watch(
	ctx context.Context, extraction hitherto.ExtractionServiceClient, id string,
) (*hitherto.Job, []string, error) {
	updates, err := extraction.WatchJob(ctx, &hitherto.WatchJobRequest{JobId: id})
	if err != nil {
		return nil, nil, err
	}
	var job *hitherto.Job
	var states []string
	for {
		update, err := updates.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		job = update.GetJob()
		states = append(states, job.GetState().String())
	}
	switch job.GetState() {
	case hitherto.JobState_JOB_STATE_SUCCEEDED,
		hitherto.JobState_JOB_STATE_DEAD,
		hitherto.JobState_JOB_STATE_CANCELLED:
		return job, states, nil
	}
	return nil, nil, fmt.Errorf("WatchJob ended before the job did: %s", strings.Join(states, ", "))
}

func print(job *hitherto.Job, states []string, told *hitherto.GetContextResponse) error {
	options := protojson.MarshalOptions{UseProtoNames: true}
	out := map[string]any{"states": states}
	for name, message := range map[string]proto.Message{"job": job, "context": told} {
		text, err := options.Marshal(message)
		if err != nil {
			return err
		}
		out[name] = json.RawMessage(text)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}
