/* proto - messages of a .proto file as JSON, and protoc's plugin for C. See proto.h.
 * Layer: apps. Threads: one. */
#include "apps/proto/proto.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/json_util.h>

namespace
{

namespace pb = google::protobuf;

/* Fields of google.protobuf.compiler.CodeGeneratorRequest, whose header Debian has in
 * libprotoc-dev. */
enum { PROTO_FILE = 15, SOURCE_FILE_DESCRIPTORS = 17 };
/* supported_features = FEATURE_PROTO3_OPTIONAL of CodeGeneratorResponse. A response may be several
 * ones in a row, which are merged. */
const char features[] = "\x10\x01";
const char no_generator[] = "protoc-gen-c is missing: apt install protobuf-c-compiler";

struct Schema {
	pb::DescriptorPool pool;
	pb::DynamicMessageFactory factory{&pool};
	std::vector<const pb::FileDescriptor *> files;
	const pb::MethodDescriptor *method = nullptr;
};

Schema *schema; /* never freed: descriptors and messages refer to each other */
std::string why, text;

const char *fail_with(const std::string &reason)
{
	why = reason.substr(0, reason.find_last_not_of('\n') + 1);
	for (char &c : why)
		if (c == '\n')
			c = ' ';
	return why.c_str();
}

/* Runs a program with a file as one of its standard streams. Returns its exit status, or
 * the negative error of its start. */
int run_program(std::vector<std::string> words, int stream, FILE *file)
{
	std::vector<char *> argv;
	posix_spawn_file_actions_t actions;
	int status = 0, err;
	pid_t pid;

	for (std::string &word : words)
		argv.push_back(&word[0]);
	argv.push_back(nullptr);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(file), stream);
	err = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

template <typename Fields> void clear_optional(Fields *fields)
{
	for (pb::FieldDescriptorProto &field : *fields)
		field.clear_proto3_optional();
}

/* Makes proto3's optional fields those that they are in the descriptor without the flag: members of
 * a oneof of one. */
void clear_message(pb::DescriptorProto *message)
{
	clear_optional(message->mutable_field());
	clear_optional(message->mutable_extension());
	for (pb::DescriptorProto &nested : *message->mutable_nested_type())
		clear_message(&nested);
}

void clear_file(std::string *bytes)
{
	pb::FileDescriptorProto file;

	if (!file.ParseFromString(*bytes))
		return; /* the generator reports it */
	for (pb::DescriptorProto &message : *file.mutable_message_type())
		clear_message(&message);
	clear_optional(file.mutable_extension());
	file.SerializeToString(bytes);
}

int write_error(const char *reason)
{
	printf("\x0a%c%s%s", static_cast<char>(strlen(reason)), reason, features);
	return 0;
}

int generate(void)
{
	pb::io::FileInputStream in(STDIN_FILENO);
	pb::UnknownFieldSet request;
	std::string bytes;
	FILE *edited = tmpfile();
	int status;

	if (!edited || !request.ParseFromZeroCopyStream(&in))
		return write_error("no request of protoc, or no temporary file");
	for (int i = 0; i < request.field_count(); i++) {
		pb::UnknownField *field = request.mutable_field(i);

		if (field->number() == PROTO_FILE || field->number() == SOURCE_FILE_DESCRIPTORS)
			clear_file(field->mutable_length_delimited());
	}
	request.SerializeToString(&bytes);
	fwrite(bytes.data(), 1, bytes.size(), edited);
	rewind(edited);
	status = run_program({"protoc-gen-c"}, STDIN_FILENO, edited);
	if (status < 0)
		return write_error(no_generator);
	fputs(features, stdout);
	return status;
}

const char *load(const char *file, const char *folders)
{
	FILE *out = tmpfile(), *errors = tmpfile();
	pb::FileDescriptorSet set;
	char said[1024];
	std::string path;
	int status;

	pb::SetLogHandler(nullptr);
	if (!out || !errors)
		return fail_with("no temporary file: free some space in /tmp");
	path = "/proc/self/fd/" + std::to_string(fileno(out)); /* protoc inherits it */
	status = run_program({"protoc", std::string("-I") + folders, "--include_imports",
			      "--descriptor_set_out=" + path, file},
			     STDERR_FILENO, errors);
	if (status < 0)
		return fail_with("protoc is missing: apt install protobuf-compiler");
	if (status > 0) {
		rewind(errors);
		return fail_with(std::string(said, fread(said, 1, sizeof(said), errors)));
	}
	if (!set.ParseFromFileDescriptor(fileno(out)))
		return fail_with("no descriptors of protoc: mount /proc");
	schema = new Schema;
	for (const pb::FileDescriptorProto &one : set.file()) {
		const pb::FileDescriptor *built = schema->pool.BuildFile(one);

		if (!built)
			return fail_with(one.name() + ": protoc is of another release than "
						      "libprotobuf: install both from one source");
		schema->files.push_back(built);
	}
	return nullptr;
}

/* Fields of grpc.reflection.v1: of a request, of a response, and of the messages in a response. */
enum { FILE_BY_NAME = 3, FILE_OF_SYMBOL = 4, LIST_SERVICES = 7 };
enum { FILES = 4, SERVICES = 6, FAILURE = 7, ONE = 1, TEXT = 2 };
enum { FILES_MAX = 1000 }; /* most files that a server may name */

struct Reflection {
	std::vector<std::string> symbols; /* to ask for */
	std::map<std::string, pb::FileDescriptorProto> files;
};
Reflection learned;

/* Stores a file that the server sent. */
bool learn_file(const std::string &bytes)
{
	pb::FileDescriptorProto file;

	if (!file.ParseFromString(bytes) || learned.files.size() >= FILES_MAX)
		return false;
	learned.files[file.name()] = file;
	return true;
}

std::string text_of(const pb::UnknownFieldSet &fields, int number)
{
	for (int i = 0; i < fields.field_count(); i++)
		if (fields.field(i).number() == number &&
		    fields.field(i).type() == pb::UnknownField::TYPE_LENGTH_DELIMITED)
			return fields.field(i).length_delimited();
	return "";
}

/* Stores what a response has. Returns why it does not help, or "". */
std::string learn_response(const void *bytes, size_t len)
{
	pb::UnknownFieldSet response, body;

	if (!response.ParseFromArray(bytes, static_cast<int>(len)))
		return "its reflection sent no message";
	for (int what : {FAILURE, FILES, SERVICES}) {
		if (!body.ParseFromString(text_of(response, what)))
			return "its reflection sent no message";
		if (what == FAILURE && !body.empty())
			return "its reflection says: " + text_of(body, TEXT);
		for (int i = 0; i < body.field_count(); i++) {
			pb::UnknownFieldSet service;
			const pb::UnknownField &field = body.field(i);

			if (field.number() != ONE ||
			    field.type() != pb::UnknownField::TYPE_LENGTH_DELIMITED)
				continue;
			if (what == FILES && !learn_file(field.length_delimited()))
				return "its reflection sent too many files, or none";
			if (what == SERVICES && service.ParseFromString(field.length_delimited()))
				learned.symbols.push_back(text_of(service, ONE));
		}
	}
	return "";
}

/* Finds a file that another one imports. Those of protobuf itself are here. */
std::string missing_file()
{
	for (bool found = true; found;) {
		found = false;
		for (const auto &one : learned.files)
			for (const std::string &name : one.second.dependency()) {
				const pb::FileDescriptor *own =
				    pb::DescriptorPool::generated_pool()->FindFileByName(name);

				if (learned.files.count(name))
					continue;
				if (!own)
					return name;
				own->CopyTo(&learned.files[name]);
				found = true;
				break;
			}
	}
	return "";
}

/* Builds a file after those that it imports. */
bool build_file(const std::string &name)
{
	auto at = learned.files.find(name);
	pb::FileDescriptorProto file;
	const pb::FileDescriptor *built;

	if (at == learned.files.end()) /* built, or it imports itself */
		return true;
	file = at->second;
	learned.files.erase(at);
	for (const std::string &import : file.dependency())
		if (!build_file(import))
			return false;
	built = schema->pool.BuildFile(file);
	if (built)
		schema->files.push_back(built);
	return built;
}

const char *reflect(const char *service, const void *response, size_t len, const char **request,
		    size_t *request_len)
{
	pb::UnknownFieldSet fields;
	std::string name;

	pb::SetLogHandler(nullptr);
	if (!response) {
		learned = {};
		if (*service)
			learned.symbols.push_back(service);
		else
			fields.AddLengthDelimited(LIST_SERVICES, "*");
	} else if (!(name = learn_response(response, len)).empty()) {
		return fail_with(name);
	}
	if (!learned.symbols.empty()) {
		fields.AddLengthDelimited(FILE_OF_SYMBOL, learned.symbols.back());
		learned.symbols.pop_back();
	} else if (response && !(name = missing_file()).empty()) {
		fields.AddLengthDelimited(FILE_BY_NAME, name);
	}
	*request = nullptr;
	if (!fields.empty()) {
		fields.SerializeToString(&text);
		*request = text.data();
		*request_len = text.size();
		return nullptr;
	}
	schema = new Schema;
	while (!learned.files.empty())
		if (!build_file(learned.files.begin()->first))
			return fail_with("its reflection sent files that do not fit together");
	return nullptr;
}

std::string path_of(const pb::MethodDescriptor *method)
{
	return "/" + method->service()->full_name() + "/" + method->name();
}

/* Calls a function with each method, until it returns true. Returns that method. */
template <typename Function> const pb::MethodDescriptor *find_method(Function wanted)
{
	for (const pb::FileDescriptor *file : schema->files)
		for (int i = 0; i < file->service_count(); i++)
			for (int j = 0; j < file->service(i)->method_count(); j++)
				if (wanted(file->service(i)->method(j)))
					return file->service(i)->method(j);
	return nullptr;
}

const char *list(void)
{
	text.clear();
	find_method([](const pb::MethodDescriptor *m) {
		text += path_of(m) + (m->client_streaming() ? " (stream " : " (") +
			m->input_type()->full_name() +
			(m->server_streaming() ? ") returns (stream " : ") returns (") +
			m->output_type()->full_name() + ")\n";
		return false;
	});
	return text.c_str();
}

const char *choose(const char *path)
{
	std::string all;

	schema->method = find_method([&](const pb::MethodDescriptor *m) {
		all += (all.empty() ? "" : ", ") + path_of(m);
		return path_of(m) == path;
	});
	if (!schema->method)
		return fail_with(std::string(path) + ": no such method; " +
				 (all.empty() ? "the file has no service" : "there are " + all));
	if (schema->method->client_streaming() || schema->method->server_streaming())
		return fail_with(std::string(path) + ": a stream; name a method without streams");
	return nullptr;
}

std::string fields_of(const pb::Descriptor *type)
{
	std::string all = type->full_name() + " has ";

	for (int i = 0; i < type->field_count(); i++)
		all += (i ? ", " : "") + type->field(i)->json_name();
	return type->field_count() ? all : all + "no fields";
}

const char *encode(const char *json, size_t len, const char **out, size_t *out_len)
{
	const pb::Descriptor *type = schema->method->input_type();
	std::unique_ptr<pb::Message> message(schema->factory.GetPrototype(type)->New());
	pb::util::Status status =
	    pb::util::JsonStringToMessage(pb::StringPiece(json, len), message.get());

	if (!status.ok())
		return fail_with(status.message().ToString() + "; " + fields_of(type));
	if (!message->SerializeToString(&text))
		return fail_with(type->full_name() + " needs " +
				 message->InitializationErrorString());
	*out = text.data();
	*out_len = text.size();
	return nullptr;
}

const char *decode(const void *reply, size_t len, const char **out)
{
	const pb::Descriptor *type = schema->method->output_type();
	std::unique_ptr<pb::Message> message(schema->factory.GetPrototype(type)->New());

	text.clear();
	if (!message->ParsePartialFromArray(reply, static_cast<int>(len)) ||
	    !pb::util::MessageToJsonString(*message, &text).ok())
		return fail_with("the reply is no " + type->full_name() +
				 "; use the .proto file of the server");
	*out = text.c_str();
	return nullptr;
}

} // namespace

const struct app_proto lend_proto_module = {generate, load, reflect, list, choose, encode, decode};
