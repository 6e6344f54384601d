package hitherto

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "hitherto.com/go/hitherto/v1"
)

// running returns a client of the services that the environment names. Without HITHERTO_TEST_SERVICES there are
// none to test with.
func running(t *testing.T, options ...Option) (*Client, string) {
	t.Helper()
	if os.Getenv("HITHERTO_TEST_SERVICES") == "" {
		t.Skip("HITHERTO_TEST_SERVICES is unset: no services to test with")
	}
	client, err := New(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, "người dùng " + newID()
}

func TestServicesKeepEveryScript(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	texts := []string{
		"Tôi sống ở Hà Nội và làm nghề nuôi cá.",
		"أعيش في القاهرة وأعمل مهندسة.",
		"👩🏽‍🚀 loves 🐙 and 日本語.",
		"Her sister is called Anaïs.",
		"The bicycle is green.",
	}
	for _, text := range texts {
		saved, err := client.SaveMemory(t.Context(), user, text, func(r *pb.SaveMemoryRequest) { r.Tags = []string{"thẻ"} })
		if err != nil || saved.GetMemory().GetContent() != text {
			t.Fatalf("%v, %v", saved, err)
		}
	}
	var read []string
	for memory, err := range client.Memories(t.Context(), user, func(r *pb.ListMemoriesRequest) { r.PageSize = 2 }) {
		if err != nil || memory.GetUserId() != user || !slices.Equal(memory.GetTags(), []string{"thẻ"}) {
			t.Fatalf("%v, %v", memory, err)
		}
		read = append(read, memory.GetContent())
	}
	slices.Sort(read)
	slices.Sort(texts)
	if !slices.Equal(read, texts) {
		t.Errorf("read %q", read)
	}
	found, err := client.Search(t.Context(), user, "Hà Nội", func(r *pb.SearchMemoriesRequest) { r.Limit = 1 })
	if err != nil || len(found.GetResults()) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	hit := found.GetResults()[0].GetMemory()
	if _, err := client.ForgetMemory(t.Context(), user, hit.GetId()); err != nil {
		t.Fatal(err)
	}
	for memory, err := range client.Memories(t.Context(), user) {
		if err != nil || memory.GetId() == hit.GetId() {
			t.Errorf("%v, %v", memory, err)
		}
	}
	kept, err := client.GetMemory(t.Context(), user, hit.GetId())
	if err != nil || kept.GetStatus() != pb.MemoryStatus_MEMORY_STATUS_FORGOTTEN {
		t.Errorf("%v, %v", kept, err)
	}
	if none, err := client.GetMemory(t.Context(), user, "00000000-0000-4000-8000-000000000000"); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func TestServicesLearnFromAChat(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	added, err := client.Add(t.Context(), user, "monday", []*pb.Message{
		UserSaid("I live in Hà Nội and I work as a marine biologist 🐙."), AssistantSaid("Noted."),
	})
	if err != nil || len(added.GetMessageIds()) != 2 {
		t.Fatalf("%v, %v", added, err)
	}
	ended, err := client.EndConversation(t.Context(), user, "monday")
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.Jobs.Wait(t.Context(), ended.GetId())
	if err != nil || job.GetState() != pb.JobState_JOB_STATE_SUCCEEDED {
		t.Fatalf("%v, %v", job, err)
	}
	told, err := client.GetContext(t.Context(), user, "Where does the user live?", func(r *pb.GetContextRequest) {
		r.Scopes = []pb.SearchScope{pb.SearchScope_SEARCH_SCOPE_MEMORIES}
	})
	if err != nil || !slices.ContainsFunc(told.GetMemories(), func(m *pb.Memory) bool {
		return m.GetUserId() == user && m.GetContent() != ""
	}) {
		t.Errorf("%v, %v", told, err)
	}
}

func TestServicesTakeTranscripts(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	said := UserSaid("I live in Porto.")
	said.CreatedAt = timestamppb.New(time.Date(2025, 6, 15, 15, 6, 40, 0, time.UTC))
	jobs, err := client.SubmitTranscripts(t.Context(), []*pb.Transcript{
		{UserId: user, ConversationId: "tuesday", Messages: []*pb.Message{said}, Ended: true},
	})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	if job, err := client.Jobs.Wait(t.Context(), jobs[0].GetId()); err != nil || job.GetUserId() != user {
		t.Fatalf("%v, %v", job, err)
	}
	kept, err := client.Retrieval.GetConversation(t.Context(), &pb.GetConversationRequest{UserId: user, ConversationId: "tuesday"})
	if err != nil || !kept.GetMessages()[0].GetCreatedAt().AsTime().Equal(said.GetCreatedAt().AsTime()) {
		t.Errorf("%v, %v", kept, err)
	}
}

func TestServicesSayWhatIsWrong(t *testing.T) {
	client, user := running(t)
	_, err := client.SaveMemory(t.Context(), user, "")
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != "INVALID_FIELD" || failed.Violations[0].Field != "content" {
		t.Error(err)
	}
	if _, err := client.Jobs.Wait(t.Context(), "00000000-0000-4000-8000-000000000000"); !errors.Is(err, Reason("JOB_NOT_FOUND")) {
		t.Error(err)
	}
	stranger, _ := running(t, WithToken("nobody"))
	if _, err := stranger.SaveMemory(t.Context(), user, "x"); !errors.Is(err, Reason("CREDENTIAL_INVALID")) {
		t.Error(err)
	}
	if _, err := stranger.Jobs.Wait(t.Context(), "00000000-0000-4000-8000-000000000000"); !errors.Is(err, Reason("CREDENTIAL_INVALID")) {
		t.Error(err)
	}
}
