package hitherto

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "hitherto.com/go/hitherto/v1"
)

var texts = []string{
	"Her sister is called Anaïs.",
	"The bicycle is green.",
	"Tôi sống ở Hà Nội và làm nghề nuôi cá.",
	"أعيش في القاهرة وأعمل مهندسة.",
	"👩🏽‍🚀 loves 🐙 and 日本語.",
}

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
	if !slices.Equal(read, texts) {
		t.Errorf("read %q", read)
	}
	found, err := client.Search(t.Context(), user, "Hà Nội", func(r *pb.SearchMemoriesRequest) { r.Limit = 1 })
	if err != nil || len(found.GetResults()) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	hit := found.GetResults()[0].GetMemory()
	if Text(found.GetResults()[0]) != hit.GetContent() || hit.GetContent() == "" {
		t.Errorf("%v", found)
	}
	if gone, err := client.ForgetMemory(t.Context(), user, hit.GetId()); err != nil || Word(gone.GetMemory().GetStatus()) != "forgotten" {
		t.Fatalf("%v, %v", gone, err)
	}
	for memory, err := range client.Memories(t.Context(), user) {
		if err != nil || memory.GetId() == hit.GetId() {
			t.Errorf("%v, %v", memory, err)
		}
	}
	old, err := client.SaveMemory(t.Context(), user, "Bà ấy có hai con chó.")
	if err != nil {
		t.Fatal(err)
	}
	replaced := []string{old.GetMemory().GetId()}
	more, err := client.SaveMemory(t.Context(), user, "Bà ấy có ba con chó.", func(r *pb.SaveMemoryRequest) {
		r.Replaces = replaced
	})
	if err != nil || !slices.Equal(more.GetMemory().GetSupersedes(), replaced) {
		t.Errorf("%v, %v", more, err)
	}
	kept, err := client.GetMemory(t.Context(), user, hit.GetId())
	if err != nil || kept.GetStatus() != pb.MemoryStatus_MEMORY_STATUS_FORGOTTEN {
		t.Errorf("%v, %v", kept, err)
	}
	if back, err := client.RestoreMemory(t.Context(), user, hit.GetId()); err != nil || Word(back.GetStatus()) != "active" {
		t.Errorf("%v, %v", back, err)
	}
	if none, err := client.GetMemory(t.Context(), user, "00000000-0000-4000-8000-000000000000"); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func TestServicesLearnFromAChat(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	said := "I live in Hà Nội and I work as a marine biologist 🐙."
	added, err := client.Add(t.Context(), user, []*pb.Message{UserSaid(said), AssistantSaid("Noted.")}, "monday")
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
		t.Fatalf("%v, %v", told, err)
	}
	proof, err := client.Why(t.Context(), user, told.GetMemories()[0].GetId())
	if err != nil || len(proof.Quotes) == 0 {
		t.Fatalf("%v, %v", proof, err)
	}
	quote := proof.Quotes[0]
	if quote.ConversationID != "monday" || quote.Before != nil || quote.Message.GetContent() != said ||
		quote.After.GetContent() != "Noted." {
		t.Errorf("%v", quote)
	}
}

func TestServicesCorrectWhatIsKnown(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	ctx := t.Context()
	saved, err := client.SaveMemory(ctx, user, "She lives in Huế 🏯.", func(r *pb.SaveMemoryRequest) {
		r.Type, r.Tags = pb.MemoryType_MEMORY_TYPE_PERSONAL, []string{"home"}
	})
	if err != nil {
		t.Fatal(err)
	}
	id := saved.GetMemory().GetId()
	changed, err := client.UpdateMemory(ctx, user, id, &pb.Memory{Content: "She lives in Đà Nẵng 🌉."},
		func(r *pb.UpdateMemoryRequest) { r.UpdateMask.Paths = append(r.UpdateMask.Paths, "tags") })
	memory := changed.GetMemory()
	if err != nil || memory.GetContent() != "She lives in Đà Nẵng 🌉." || len(memory.GetTags()) != 0 ||
		Word(memory.GetType()) != "personal" {
		t.Errorf("%v, %v", changed, err)
	}
	var kinds []string
	for event, err := range client.MemoryHistory(ctx, user, id, func(r *pb.GetMemoryHistoryRequest) { r.PageSize = 1 }) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, Word(event.GetKind()))
	}
	if !slices.Equal(kinds, []string{"updated", "created"}) {
		t.Error(kinds)
	}
	if proof, err := client.Why(ctx, user, id); err != nil || proof.Memory.GetId() != id || len(proof.Quotes) != 0 {
		t.Errorf("%v, %v", proof, err)
	}
	_, err = client.UpdateMemory(ctx, user, id, &pb.Memory{Content: "x"}, func(r *pb.UpdateMemoryRequest) { r.Version = 1 })
	if !errors.Is(err, Reason("VERSION_MISMATCH")) {
		t.Error(err)
	}
	if _, err := client.UpdateMemory(ctx, user, id, &pb.Memory{}); !errors.Is(err, Reason("INVALID_FIELD")) {
		t.Error(err)
	}
}

func TestServicesLetAPersonDecide(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	ctx := t.Context()
	if none, err := client.GetProfile(ctx, user); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	facts := func(personal map[string]any) *structpb.Struct {
		held, err := structpb.NewStruct(map[string]any{"personal": personal})
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	begun := &pb.Profile{Summary: "Nuôi cá.", Facts: facts(map[string]any{"location": "Huế", "notes": "🐟"})}
	if _, err := client.UpdateProfile(ctx, user, begun); err != nil {
		t.Fatal(err)
	}
	moved, err := client.UpdateProfile(ctx, user, &pb.Profile{Facts: facts(map[string]any{"location": "Đà Nẵng"})},
		func(r *pb.UpdateProfileRequest) { r.UpdateMask.Paths = append(r.UpdateMask.Paths, "summary") })
	want := facts(map[string]any{"location": "Đà Nẵng", "notes": "🐟"})
	if err != nil || moved.GetSummary() != "" || !proto.Equal(moved.GetFacts(), want) {
		t.Errorf("%v, %v", moved, err)
	}
	if profile, err := client.GetProfile(ctx, user); err != nil || !proto.Equal(profile, moved) {
		t.Errorf("%v, %v", profile, err)
	}
	_, err = client.UpdateUserSettings(ctx, user, &pb.UserSettings{
		TimeZone: proto.String("Asia/Saigon"), LearningEnabled: proto.Bool(false),
	})
	if err != nil {
		t.Fatal(err)
	}
	reset, err := client.UpdateUserSettings(ctx, user, &pb.UserSettings{}, func(r *pb.UpdateUserSettingsRequest) {
		r.UpdateMask.Paths = []string{"learning_enabled"}
	})
	if err != nil || reset.GetTimeZone() != "Asia/Saigon" || !reset.GetLearningEnabled() {
		t.Errorf("%v, %v", reset, err)
	}
	if settings, err := client.GetUserSettings(ctx, user); err != nil || !proto.Equal(settings, reset) {
		t.Errorf("%v, %v", settings, err)
	}
	if _, err := client.SaveMemory(ctx, user, "She keeps fish."); err != nil {
		t.Fatal(err)
	}
	if counts, err := client.ClearMemories(ctx, user); err != nil || counts["memories"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	if receipt, err := client.EraseUser(ctx, user); err != nil || receipt.GetCounts()["memories"] != 1 {
		t.Errorf("%v, %v", receipt, err)
	}
	if _, err := client.SaveMemory(ctx, user, "x"); !errors.Is(err, Reason("USER_ERASED")) {
		t.Error(err)
	}
	if erased, err := client.ReinstateUser(ctx, user); err != nil || !erased {
		t.Errorf("%v, %v", erased, err)
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

func TestServicesGiveAUsersDataAndTakeThemBack(t *testing.T) {
	client, user := running(t, WithTimeout(2*time.Minute))
	for _, text := range texts {
		if _, err := client.SaveMemory(t.Context(), user, text); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "người dùng.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var told int64
	tell := func(o *Transfer) { o.Progress = func(bytes int64) { told = bytes } }
	manifest, err := client.ExportUser(t.Context(), user, file, tell)
	size, _ := file.Seek(0, io.SeekCurrent)
	if err != nil || manifest.GetTotalBytes() != size || told != size || manifest.GetCounts()["memories"] != 5 {
		t.Fatalf("%d bytes, told %d, %v, %v", size, told, manifest, err)
	}
	// Somebody else receives them.
	told = 0
	file.Seek(0, io.SeekStart)
	_, other := running(t)
	imported, err := client.ImportUser(t.Context(), other, file, tell)
	if err != nil || told != size || imported.GetImportedCounts()["memories"] != 5 {
		t.Fatalf("told %d, %v, %v", told, imported, err)
	}
	var read []string
	for memory, err := range client.Memories(t.Context(), other) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, memory.GetContent())
	}
	slices.Sort(read)
	if !slices.Equal(read, texts) {
		t.Errorf("read %q", read)
	}
	file.Seek(0, io.SeekStart)
	again, err := client.ImportUser(t.Context(), user, file)
	if err != nil || again.GetImportedCounts()["memories"] != 0 || again.GetSkippedCounts()["memories"] != 5 {
		t.Errorf("%v, %v", again, err)
	}
	_, nobody := running(t)
	if _, err := client.ImportUser(t.Context(), nobody, strings.NewReader("no export")); !errors.Is(err, Reason("INVALID_FIELD")) {
		t.Error(err)
	}
}

func TestServicesSayWhatIsWrong(t *testing.T) {
	client, user := running(t)
	_, err := client.SaveMemory(t.Context(), user, "")
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != "INVALID_FIELD" || failed.Violations[0].Field != "content" {
		t.Error(err)
	}
	if strings.Count(err.Error(), "content: ") != 1 {
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
