// Command protogen generates Go code from protobuf files: protogen FILE.proto...
// Each FILE.pb.go is written beside its source, and with it FILE_grpc.pb.go if the file
// has services. Files import each other by their paths below the folder of go.mod. It
// needs no protoc: the compiler is a Go package and the generators are Go packages or
// tools, at the versions of this module. With -descriptors FILE it writes what it has
// read as a FileDescriptorSet instead, for tests.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("protogen", flag.ContinueOnError)
	out := flags.String("descriptors", "", "write a FileDescriptorSet to `FILE`, and no code")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: protogen [-descriptors FILE] FILE.proto...")
	}
	if *out != "" {
		return describe(ctx, flags.Args(), *out)
	}
	for _, path := range flags.Args() {
		if err := generate(ctx, path); err != nil {
			return fmt.Errorf("generate from %s: %w", path, err)
		}
	}
	return nil
}

// describe writes the descriptors of files and of what they import.
func describe(ctx context.Context, paths []string, out string) error {
	set, seen := new(descriptorpb.FileDescriptorSet), map[string]bool{}
	for _, path := range paths {
		_, file, err := compile(ctx, path)
		if err != nil {
			return err
		}
		set.File = append(set.File, withImports(file, seen)...)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(out, raw, 0o644)
}

// compile reads one file. Its module's folder is root.
func compile(ctx context.Context, path string) (root string, file protoreflect.FileDescriptor, err error) {
	root, name, err := locate(path)
	if err != nil {
		return "", nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return "", nil, err
	}
	return root, files[0], nil
}

// generate writes the Go code of one file.
func generate(ctx context.Context, path string) error {
	root, file, err := compile(ctx, path)
	if err != nil {
		return err
	}
	name := file.Path()
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      withImports(file, map[string]bool{}),
	}
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return err
	}
	plugin.SupportedFeatures = internal_gengo.SupportedFeatures
	internal_gengo.GenerateFile(plugin, plugin.FilesByPath[name])
	if err := write(root, plugin.Response()); err != nil {
		return err
	}
	if file.Services().Len() == 0 {
		return nil
	}
	answer, err := services(ctx, request)
	if err != nil {
		return err
	}
	return write(root, answer)
}

// locate splits a file's path at the folder that has the module's go.mod.
func locate(path string) (root, name string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	for root = filepath.Dir(path); ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		if root == filepath.Dir(root) {
			return "", "", fmt.Errorf("%s lies in no module", path)
		}
	}
	name, err = filepath.Rel(root, path)
	return root, filepath.ToSlash(name), err
}

// services has the generator of gRPC's clients and servers, which is a program, do its
// part. It runs in this module's folder, as this program does.
func services(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go-grpc")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go-grpc: %w", err)
	}
	answer := new(pluginpb.CodeGeneratorResponse)
	return answer, proto.Unmarshal(out, answer)
}

// write writes what a generator has made.
func write(root string, answer *pluginpb.CodeGeneratorResponse) error {
	if answer.Error != nil {
		return errors.New(answer.GetError())
	}
	for _, file := range answer.File {
		out := filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(file.GetName(), "/")))
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
