package hitherto

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	pb "hitherto.com/go/hitherto/v1"
)

// SaveMemory remembers one statement at once. If the user has a memory with the same meaning, that one gets a new
// version instead. The functions set further fields of the request.
func (c *Client) SaveMemory(
	ctx context.Context, user, content string, with ...func(*pb.SaveMemoryRequest),
) (*pb.SaveMemoryResponse, error) {
	request := filled(&pb.SaveMemoryRequest{UserId: user, Content: content}, with)
	return write(ctx, c.tokens, user, request, c.Memory.SaveMemory)
}

// ForgetMemory has reads no longer return a memory; the stub's RestoreMemory brings it back.
func (c *Client) ForgetMemory(
	ctx context.Context, user, memoryID string, with ...func(*pb.ForgetMemoryRequest),
) (*pb.Memory, error) {
	request := filled(&pb.ForgetMemoryRequest{UserId: user, MemoryId: memoryID}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Memory.ForgetMemory)
	return reply.GetMemory(), err
}

// GetMemory returns one memory, whatever its status; nil if there is none.
func (c *Client) GetMemory(ctx context.Context, user, memoryID string) (*pb.Memory, error) {
	request := &pb.GetMemoryRequest{UserId: user, MemoryId: memoryID}
	reply, err := read(ctx, c.tokens, user, request, c.Retrieval.GetMemory)
	if notFound(err) {
		return nil, nil
	}
	return reply.GetMemory(), err
}

// GetContext returns what an assistant should know before it answers the query; its PromptBlock is the text for the
// assistant's prompt. The functions set further fields of the request.
func (c *Client) GetContext(
	ctx context.Context, user, query string, with ...func(*pb.GetContextRequest),
) (*pb.GetContextResponse, error) {
	request := filled(&pb.GetContextRequest{UserId: user, Query: query}, with)
	return read(ctx, c.tokens, user, request, c.Retrieval.GetContext)
}

// Search returns the best results for the query. The functions set further fields of the request.
func (c *Client) Search(
	ctx context.Context, user, query string, with ...func(*pb.SearchMemoriesRequest),
) (*pb.SearchMemoriesResponse, error) {
	request := filled(&pb.SearchMemoriesRequest{UserId: user, Query: query}, with)
	return read(ctx, c.tokens, user, request, c.Retrieval.SearchMemories)
}

// Memories iterates over a user's memories, fetching page after page. It ends with the first error. The functions
// set filters, order and page size.
func (c *Client) Memories(
	ctx context.Context, user string, with ...func(*pb.ListMemoriesRequest),
) iter.Seq2[*pb.Memory, error] {
	return func(yield func(*pb.Memory, error) bool) {
		request := filled(&pb.ListMemoriesRequest{UserId: user}, with)
		for {
			page, err := read(ctx, c.tokens, user, request, c.Retrieval.ListMemories)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, memory := range page.GetMemories() {
				if !yield(memory, nil) {
					return
				}
			}
			if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
				return
			}
		}
	}
}

func filled[Q proto.Message](request Q, with []func(Q)) Q {
	for _, fill := range with {
		fill(request)
	}
	return request
}
