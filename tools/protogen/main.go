// Command protogen generates Go code from protobuf files: protogen FILE.proto...
// Each FILE.pb.go is written beside its source. It needs no protoc: the compiler and
// the generator are Go packages, at the versions of this module.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return errors.New("usage: protogen FILE.proto...")
	}
	for _, path := range paths {
		if err := generate(ctx, path); err != nil {
			return fmt.Errorf("generate from %s: %w", path, err)
		}
	}
	return nil
}

// generate writes the Go code of one file, whose imports are well-known types or
// lie beside it.
func generate(ctx context.Context, path string) error {
	dir, name := filepath.Split(path)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return err
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      withImports(files[0], map[string]bool{}),
	})
	if err != nil {
		return err
	}
	plugin.SupportedFeatures = internal_gengo.SupportedFeatures
	internal_gengo.GenerateFile(plugin, plugin.FilesByPath[name])
	answer := plugin.Response()
	if answer.Error != nil {
		return errors.New(answer.GetError())
	}
	for _, file := range answer.File {
		out := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(file.GetName(), "/")))
		if err := os.WriteFile(out, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// withImports returns the descriptor of a file behind those of its imports, each once.
func withImports(file protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return nil
	}
	seen[file.Path()] = true
	var all []*descriptorpb.FileDescriptorProto
	for i := range file.Imports().Len() {
		all = append(all, withImports(file.Imports().Get(i).FileDescriptor, seen)...)
	}
	return append(all, protoutil.ProtoFromFileDescriptor(file))
}
