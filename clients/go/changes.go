package hitherto

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// maskOf returns the paths of what a message sets. With byKey, what a Struct holds is named key by key.
func maskOf(message proto.Message, byKey bool) *fieldmaskpb.FieldMask {
	var paths []string
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		if held, ok := structOf(field, value); ok && byKey {
			paths = append(paths, keyPaths(name, held)...)
		} else {
			paths = append(paths, name)
		}
		return true
	})
	slices.Sort(paths)
	return &fieldmaskpb.FieldMask{Paths: paths}
}

func structOf(field protoreflect.FieldDescriptor, value protoreflect.Value) (*structpb.Struct, bool) {
	if field.Message() == nil || field.IsList() || field.IsMap() {
		return nil, false
	}
	held, ok := value.Message().Interface().(*structpb.Struct)
	return held, ok
}

// keyPaths returns the paths of what a Struct holds; an empty one is a value of its own.
func keyPaths(path string, held *structpb.Struct) []string {
	if len(held.GetFields()) == 0 {
		return []string{path}
	}
	var paths []string
	for key, value := range held.GetFields() {
		if inner, ok := value.GetKind().(*structpb.Value_StructValue); ok {
			paths = append(paths, keyPaths(path+"."+key, inner.StructValue)...)
		} else {
			paths = append(paths, path+"."+key)
		}
	}
	return paths
}
