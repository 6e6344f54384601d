package hitherto

import (
	"context"
	"iter"
	"slices"

	pb "hitherto.com/go/hitherto/v1"
)

// UserSaid is a message of the user.
func UserSaid(content string) *pb.Message {
	return &pb.Message{Role: pb.Role_ROLE_USER, Content: content}
}

// AssistantSaid is a message of the assistant.
func AssistantSaid(content string) *pb.Message {
	return &pb.Message{Role: pb.Role_ROLE_ASSISTANT, Content: content}
}

// Add adds messages to a running chat. Once it returns, they are stored and can be searched. They are learnt from
// every few messages, when the chat pauses, or at EndConversation. Known messages are skipped.
func (c *Client) Add(
	ctx context.Context, user string, messages []*pb.Message, conversation string,
	with ...func(*pb.AppendMessagesRequest),
) (*pb.AppendMessagesResponse, error) {
	request := filled(&pb.AppendMessagesRequest{
		UserId: user, ConversationId: conversation, Messages: messages,
	}, with)
	return write(ctx, c.tokens, user, request, c.Extraction.AppendMessages)
}

// EndConversation marks a chat as over; the job learns from its last messages. Later ones reopen it.
func (c *Client) EndConversation(
	ctx context.Context, user, conversation string, with ...func(*pb.EndConversationRequest),
) (*pb.Job, error) {
	request := filled(&pb.EndConversationRequest{UserId: user, ConversationId: conversation}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Extraction.EndConversation)
	return reply.GetJob(), err
}

// SubmitTranscripts submits 1 to 100 conversations at once, all or none. It returns one job for each, in order.
func (c *Client) SubmitTranscripts(
	ctx context.Context, transcripts []*pb.Transcript, with ...func(*pb.SubmitTranscriptsRequest),
) ([]*pb.Job, error) {
	request := filled(&pb.SubmitTranscriptsRequest{Transcripts: transcripts}, with)
	begun := c.tokens.begin()
	reply, err := c.Extraction.SubmitTranscripts(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, transcript := range request.GetTranscripts() {
		c.tokens.note(transcript.GetUserId(), reply.GetConsistencyToken(), begun)
	}
	return reply.GetJobs(), nil
}

// GetConversation returns the summary of a conversation with its last messages (10); nil if there is none. The
// functions set further fields of the request.
func (c *Client) GetConversation(
	ctx context.Context, user, conversation string, with ...func(*pb.GetConversationRequest),
) (*pb.GetConversationResponse, error) {
	request := filled(&pb.GetConversationRequest{UserId: user, ConversationId: conversation}, with)
	reply, err := read(ctx, c.tokens, user, request, c.Retrieval.GetConversation)
	if notFound(err) || reply.GetReason() != "" {
		return nil, nil
	}
	return reply, err
}

// Messages iterates over every message of a conversation, the latest first, fetching page after page. It ends with the
// first error.
func (c *Client) Messages(ctx context.Context, user, conversation string) iter.Seq2[*pb.Message, error] {
	return items(func(before string) ([]*pb.Message, string, error) {
		page, err := c.GetConversation(ctx, user, conversation, func(r *pb.GetConversationRequest) {
			r.MessageLimit, r.BeforeMessageId = messagePage, before
		})
		messages := slices.Clone(page.GetMessages())
		slices.Reverse(messages)
		if len(messages) < messagePage {
			return messages, "", err
		}
		return messages, messages[len(messages)-1].GetId(), err
	})
}
