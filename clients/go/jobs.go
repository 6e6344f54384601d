package hitherto

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "hitherto.com/go/hitherto/v1"
)

const (
	// A stream is opened anew after this time, so that a connection that died silently is noticed.
	watchSlice = 30 * time.Second
	// How long a service that has answered before may stay away, as during a restart.
	watchPatience = 60 * time.Second
)

// Jobs follows the work in the background.
type Jobs struct {
	extraction pb.ExtractionServiceClient
	at         endpoint
	tokens     *ownWrites
}

// Get returns the job as it is now.
func (j *Jobs) Get(ctx context.Context, id string) (*pb.Job, error) {
	reply, err := read(ctx, j.tokens, "", &pb.GetJobRequest{JobId: id}, j.extraction.GetJob)
	return j.heardOf(reply.GetJob()), err
}

// Wait waits until a job is final, and returns it; reads then include what it learnt. A job that did not succeed is
// returned as well: see its State and Error. Only the context limits the time.
func (j *Jobs) Wait(ctx context.Context, id string) (*pb.Job, error) {
	var last *pb.Job
	for job, err := range j.Watch(ctx, id) {
		if err != nil {
			return nil, err
		}
		last = job
	}
	return last, nil
}

// Watch iterates over the job now and after every change, the final one last. An interrupted stream is opened again,
// for example after a restart of the service. It ends with the first error.
func (j *Jobs) Watch(ctx context.Context, id string) iter.Seq2[*pb.Job, error] {
	return func(yield func(*pb.Job, error) bool) {
		var last *pb.Job
		failures := 0
		heard := time.Now()
		for {
			ended, err := j.slice(ctx, id, func(job *pb.Job) bool {
				failures, heard = 0, time.Now()
				if last != nil && proto.Equal(last, job) {
					return true
				}
				last = job
				return yield(job, nil)
			})
			if ended {
				return
			}
			var failed *Error
			if !errors.As(err, &failed) || ctx.Err() != nil {
				yield(nil, err)
				return
			}
			silent := time.Since(heard)
			if failed.Code == codes.DeadlineExceeded && silent <= watchSlice+watchPatience {
				continue
			}
			failures++
			wait, again := j.at.retry.wait(failed, failures, true)
			if !again && last != nil && failed.Code == codes.Unavailable && silent < watchPatience {
				wait, again = j.at.retry.LongestWait, true
			}
			if deadline, has := ctx.Deadline(); !again || has && !time.Now().Add(wait).Before(deadline) {
				yield(nil, err)
				return
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
}

// slice watches for a while. It reports whether there is nothing left to watch, else why the stream ended.
func (j *Jobs) slice(ctx context.Context, id string, tell func(*pb.Job) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, watchSlice)
	defer cancel()
	stream, err := j.extraction.WatchJob(ctx, &pb.WatchJobRequest{JobId: id})
	if err != nil {
		return false, err
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			early := status.Error(codes.Unavailable, "the service ended the stream before the job was final")
			return false, j.at.readError(early, "")
		}
		if err != nil {
			return false, err
		}
		if !tell(j.heardOf(reply.GetJob())) || final(reply.GetJob()) {
			return true, nil
		}
	}
}

func final(job *pb.Job) bool {
	switch job.GetState() {
	case pb.JobState_JOB_STATE_SUCCEEDED, pb.JobState_JOB_STATE_DEAD, pb.JobState_JOB_STATE_CANCELLED:
		return true
	}
	return false
}

// heardOf returns the job; if it has ended, reads of its user include what it did.
func (j *Jobs) heardOf(job *pb.Job) *pb.Job {
	j.tokens.note(job.GetUserId(), job.GetConsistencyToken(), 0)
	return job
}
