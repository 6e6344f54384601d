package hitherto

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rules are what the clients in every language obey.
type rules struct {
	Retry struct {
		Attempts    int
		FirstWait   float64 `json:"first_wait"`
		LongestWait float64 `json:"longest_wait"`
	}
	Deadlines []struct {
		Method  string
		Seconds float64
	}
	Waits []struct {
		Name       string
		Code       codes.Code
		Reason     Reason
		RetryAfter *float64 `json:"retry_after"`
		Failures   int
		Repeatable bool
		Attempts   int
		Wait       []float64
	}
	Refusals []struct {
		Name    string
		Code    codes.Code
		Message string
		Reason  Reason
	}
	Tokens []struct {
		Name  string
		Steps []struct {
			Do, As, User, Sends string
			Tokens              []string
			Begun               *string
		}
	}
}

func readRules(t *testing.T) (read rules) {
	t.Helper()
	content, err := os.ReadFile("../rules.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func TestWaits(t *testing.T) {
	read := readRules(t)
	policy := DefaultRetryPolicy()
	want := RetryPolicy{read.Retry.Attempts, seconds(read.Retry.FirstWait), seconds(read.Retry.LongestWait)}
	if policy != want {
		t.Errorf("the default policy is %v, not %v", policy, want)
	}
	for _, given := range read.Waits {
		t.Run(given.Name, func(t *testing.T) {
			failed := &Error{Code: given.Code, Reason: given.Reason}
			if given.RetryAfter != nil {
				delay := seconds(*given.RetryAfter)
				failed.RetryAfter = &delay
			}
			policy.Attempts = given.Attempts
			wait, again := policy.wait(failed, given.Failures, given.Repeatable)
			if again != (given.Wait != nil) {
				t.Fatalf("it is made again: %v", again)
			}
			if again && (wait < seconds(given.Wait[0]) || wait > seconds(given.Wait[1])) {
				t.Errorf("it waits %v, not %v s", wait, given.Wait)
			}
		})
	}
}

func TestWhatAPolicyLeavesOutKeepsItsDefault(t *testing.T) {
	for _, attempts := range []int{1, 10} {
		want := DefaultRetryPolicy()
		want.Attempts = attempts
		if got := newSettings([]Option{WithRetry(RetryPolicy{Attempts: attempts})}).retry; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestRefusalsOfGRPC(t *testing.T) {
	for _, given := range readRules(t).Refusals {
		if got := (endpoint{}).readError(status.Error(given.Code, given.Message), "").Reason; got != given.Reason {
			t.Errorf("%s has the reason %q, not %q", given.Name, got, given.Reason)
		}
	}
}

func TestDeadlines(t *testing.T) {
	for _, given := range readRules(t).Deadlines {
		if got := defaultTimeout(given.Method, changesNothing(given.Method)); got != seconds(given.Seconds) {
			t.Errorf("%s has %v, not %v s", given.Method, got, given.Seconds)
		}
	}
}

func TestTokens(t *testing.T) {
	for _, given := range readRules(t).Tokens {
		t.Run(given.Name, func(t *testing.T) {
			kept := &ownWrites{}
			begun := map[string]int{}
			for _, step := range given.Steps {
				switch step.Do {
				case "begin":
					begun[step.As] = kept.begin()
				case "note":
					since := 0
					if step.Begun != nil {
						since = begun[*step.Begun]
					}
					for _, token := range step.Tokens {
						kept.note(step.User, token, since)
					}
				case "drop":
					kept.drop(step.User)
				case "read":
					if sends := kept.of(step.User); sends != step.Sends {
						t.Errorf("a read of %q sends %q, not %q", step.User, sends, step.Sends)
					}
				default:
					t.Fatalf("unknown step %q", step.Do)
				}
			}
		})
	}
}

func TestTokensOfTheUsersWrittenForLast(t *testing.T) {
	kept := &ownWrites{}
	for user := range mostUsers + 5 {
		kept.note("user"+strings.Repeat("x", user%7)+string(rune('a'+user%26))+newID(), "t", 0)
	}
	if len(kept.byUser) != mostUsers || kept.users.Len() != mostUsers {
		t.Errorf("tokens of %d users are kept", len(kept.byUser))
	}
}
