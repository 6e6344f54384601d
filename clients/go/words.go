package hitherto

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "hitherto.com/go/hitherto/v1"
)

// Word returns the word for an enumerated value of the contract, as the other clients spell it: MEMORY_TYPE_GOAL is
// "goal". A value that only a newer service has is "unknown_11", with its number; one that is not set, "unspecified".
func Word(value protoreflect.Enum) string {
	values := value.Descriptor().Values()
	found := values.ByNumber(value.Number())
	if found == nil {
		return "unknown_" + strconv.Itoa(int(value.Number()))
	}
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(found.Name()), prefix))
}

// Text returns the text of what was found, whichever kind of item it is.
func Text(result *pb.SearchResult) string {
	switch item := result.GetItem().(type) {
	case *pb.SearchResult_Memory:
		return item.Memory.GetContent()
	case *pb.SearchResult_Message:
		return item.Message.GetContent()
	case *pb.SearchResult_Summary:
		return item.Summary.GetSummary()
	case *pb.SearchResult_DocumentChunk:
		return item.DocumentChunk.GetContent()
	}
	return ""
}
