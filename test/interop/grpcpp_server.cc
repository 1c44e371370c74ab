// The server of gRPC's interoperability tests, by gRPC's C++ library: grpcpp_server PORT [CERT KEY]. An ordinary program of it, with blocking
// handlers. Prints "ready", and serves until it is killed.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "interop.grpc.pb.h"

// Of gRPC core, for tests of it: flags of the message that was received last, and those of one that was compressed.
uint32_t grpc_call_test_only_get_message_flags(grpc_call *call);
const uint32_t compressed_flags = 0xc0000000;

namespace grpc::testing {

// A friend of gRPC's classes by this name.
class InteropServerContextInspector {
public:
	static bool was_compressed(const ServerContext &context)
	{
		return grpc_call_test_only_get_message_flags(context.call_.call) & compressed_flags;
	}
};

} // namespace grpc::testing

namespace {

using namespace grpc::testing;
using grpc::ServerContext;
using grpc::Status;

const char initial_key[] = "x-grpc-test-echo-initial", trailing_key[] = "x-grpc-test-echo-trailing-bin";

void echo_metadata(ServerContext *context)
{
	for (const auto &[key, value] : context->client_metadata()) {
		std::string text(value.data(), value.length());

		if (key == initial_key)
			context->AddInitialMetadata(initial_key, text);
		else if (key == trailing_key)
			context->AddTrailingMetadata(trailing_key, text);
	}
}

Status status_of(const EchoStatus &status)
{
	return Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

// Returns whether a message is compressed, if the test expects that.
bool as_expected(const ServerContext &context, const BoolValue &expected)
{
	return !expected.value() || InteropServerContextInspector::was_compressed(context);
}

const Status not_compressed(grpc::INVALID_ARGUMENT, "the message is not compressed");

// Sends the responses that a request asks for.
template <class Stream> bool send_responses(Stream *stream, const StreamingOutputCallRequest &request)
{
	for (const ResponseParameters &parameters : request.response_parameters()) {
		StreamingOutputCallResponse response;
		grpc::WriteOptions options;

		if (parameters.interval_us())
			std::this_thread::sleep_for(std::chrono::microseconds(parameters.interval_us()));
		if (!parameters.compressed().value())
			options.set_no_compression();
		response.mutable_payload()->set_body(std::string(parameters.size(), '\0'));
		if (!stream->Write(response, options))
			return false;
	}
	return true;
}

class Service : public TestService::Service {
	Status EmptyCall(ServerContext *context, const Empty *, Empty *) override
	{
		echo_metadata(context);
		return Status::OK;
	}

	Status UnaryCall(ServerContext *context, const SimpleRequest *request, SimpleResponse *response) override
	{
		echo_metadata(context);
		if (!as_expected(*context, request->expect_compressed()))
			return not_compressed;
		if (request->response_status().code())
			return status_of(request->response_status());
		if (request->response_compressed().value())
			context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
		response->mutable_payload()->set_body(std::string(request->response_size(), '\0'));
		return Status::OK;
	}

	Status StreamingOutputCall(ServerContext *context, const StreamingOutputCallRequest *request,
				   grpc::ServerWriter<StreamingOutputCallResponse> *writer) override
	{
		const auto &all = request->response_parameters();

		if (std::any_of(all.begin(), all.end(), [](const auto &one) { return one.compressed().value(); }))
			context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
		send_responses(writer, *request);
		return status_of(request->response_status());
	}

	Status StreamingInputCall(ServerContext *context, grpc::ServerReader<StreamingInputCallRequest> *reader,
				  StreamingInputCallResponse *response) override
	{
		StreamingInputCallRequest request;
		size_t sum = 0;

		for (; reader->Read(&request); sum += request.payload().body().size())
			if (!as_expected(*context, request.expect_compressed()))
				return not_compressed;
		response->set_aggregated_payload_size(static_cast<int>(sum));
		return Status::OK;
	}

	Status FullDuplexCall(ServerContext *context,
			      grpc::ServerReaderWriter<StreamingOutputCallResponse, StreamingOutputCallRequest> *stream) override
	{
		StreamingOutputCallRequest request;

		echo_metadata(context);
		while (stream->Read(&request)) {
			if (request.response_status().code())
				return status_of(request.response_status());
			if (!send_responses(stream, request))
				break;
		}
		return Status::OK;
	}
};

std::string read_file(const char *path)
{
	std::ostringstream text;

	text << std::ifstream(path).rdbuf();
	return text.str();
}

} // namespace

int main(int argc, char **argv)
{
	std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
	grpc::ServerBuilder builder;
	Service service;

	if (argc < 2)
		return fprintf(stderr, "usage: grpcpp_server PORT [CERT KEY]\n"), 2;
	if (argc > 3) {
		grpc::SslServerCredentialsOptions options;

		options.pem_key_cert_pairs.push_back({read_file(argv[3]), read_file(argv[2])});
		credentials = grpc::SslServerCredentials(options);
	}
	builder.AddListeningPort(std::string("127.0.0.1:") + argv[1], credentials);
	builder.RegisterService(&service);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server)
		return 1;
	puts("ready");
	fflush(stdout);
	server->Wait();
	return 0;
}
