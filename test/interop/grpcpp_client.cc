// The cases of gRPC's interoperability tests, by gRPC's C++ library: grpcpp_client [--ca FILE] HOST:PORT CASE... An ordinary program of it:
// blocking stubs for calls and streams, and the callback API for a unary call. Exit code 0: all cases passed.
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include "interop.grpc.pb.h"

// Of gRPC core, for tests of it: flags of the message that was received last, and those of one that was compressed.
uint32_t grpc_call_test_only_get_message_flags(grpc_call *call);
const uint32_t compressed_flags = 0xc0000000;

namespace grpc::testing {

// A friend of gRPC's classes by this name.
class InteropClientContextInspector {
public:
	static bool was_compressed(const ClientContext &context)
	{
		return grpc_call_test_only_get_message_flags(context.call_) & compressed_flags;
	}
};

} // namespace grpc::testing

namespace {

using namespace grpc::testing;
using Stub = TestService::Stub;

const std::vector<int> requests = {27182, 8, 1828, 45904}, responses = {31415, 9, 2653, 58979};
const char initial_key[] = "x-grpc-test-echo-initial", trailing_key[] = "x-grpc-test-echo-trailing-bin";
const char initial_value[] = "test_initial_metadata_value", trailing_value[] = "\xab\xab\xab";
const char *address, *ca; // ca nullptr: plaintext
std::shared_ptr<grpc::Channel> channel;
const int soaks = 100;

// Ends the program with a failure.
void require(bool holds, const std::string &why)
{
	if (holds)
		return;
	fprintf(stderr, "failed: %s\n", why.c_str());
	exit(1);
}

void require_status(const grpc::Status &status, grpc::StatusCode code)
{
	require(status.error_code() == code, std::to_string(status.error_code()) + ": " + status.error_message());
}

SimpleRequest unary_request(int size, int n)
{
	SimpleRequest request;

	request.set_response_size(size);
	request.mutable_payload()->set_body(std::string(n, '\0'));
	return request;
}

StreamingOutputCallRequest stream_request(const std::vector<int> &sizes, int n, int interval = 0)
{
	StreamingOutputCallRequest request;

	for (int size : sizes) {
		ResponseParameters *parameters = request.add_response_parameters();

		parameters->set_size(size);
		parameters->set_interval_us(interval);
	}
	request.mutable_payload()->set_body(std::string(n, '\0'));
	return request;
}

void large_unary(Stub &stub, grpc::ClientContext &context)
{
	SimpleResponse response;

	require_status(stub.UnaryCall(&context, unary_request(314159, 271828), &response), grpc::OK);
	require(response.payload().body() == std::string(314159, '\0'), "the payload");
}

void empty_unary(Stub &stub)
{
	grpc::ClientContext context;
	Empty response;

	require_status(stub.EmptyCall(&context, Empty(), &response), grpc::OK);
}

void callback_unary(Stub &stub)
{
	grpc::ClientContext context;
	SimpleRequest request = unary_request(314159, 271828);
	SimpleResponse response;
	std::mutex lock;
	std::condition_variable changed;
	bool done = false;

	stub.async()->UnaryCall(&context, &request, &response, [&](grpc::Status status) {
		std::lock_guard<std::mutex> guard(lock);

		require_status(status, grpc::OK);
		done = true;
		changed.notify_one();
	});
	std::unique_lock<std::mutex> guard(lock);
	changed.wait(guard, [&] { return done; });
	require(response.payload().body().size() == 314159, "the payload");
}

// compress: the client does, and the server is to find that it did if expect.
grpc::Status compressed_unary(Stub &stub, bool compress, bool expect, bool respond)
{
	grpc::ClientContext context;
	SimpleRequest request = unary_request(314159, 271828);
	SimpleResponse response;

	if (compress)
		context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
	request.mutable_expect_compressed()->set_value(expect);
	request.mutable_response_compressed()->set_value(respond);
	grpc::Status status = stub.UnaryCall(&context, request, &response);
	if (!status.ok())
		return status;
	require(response.payload().body() == std::string(314159, '\0'), "the payload");
	require(compress || InteropClientContextInspector::was_compressed(context) == respond, "the response's compression");
	return status;
}

void client_compressed_unary(Stub &stub)
{
	require_status(compressed_unary(stub, false, true, false), grpc::INVALID_ARGUMENT);
	require_status(compressed_unary(stub, true, true, false), grpc::OK);
	require_status(compressed_unary(stub, false, false, false), grpc::OK);
}

void server_compressed_unary(Stub &stub)
{
	require_status(compressed_unary(stub, false, false, true), grpc::OK);
	require_status(compressed_unary(stub, false, false, false), grpc::OK);
}

StreamingInputCallRequest input_request(int n, bool expect)
{
	StreamingInputCallRequest request;

	request.mutable_payload()->set_body(std::string(n, '\0'));
	request.mutable_expect_compressed()->set_value(expect);
	return request;
}

void client_compressed_streaming(Stub &stub)
{
	grpc::ClientContext probe, context;
	StreamingInputCallResponse response;
	auto writer = stub.StreamingInputCall(&probe, &response);

	writer->Write(input_request(27182, true));
	writer->WritesDone();
	require_status(writer->Finish(), grpc::INVALID_ARGUMENT);
	context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
	writer = stub.StreamingInputCall(&context, &response);
	require(writer->Write(input_request(27182, true)), "a write");
	require(writer->Write(input_request(45904, false), grpc::WriteOptions().set_no_compression()), "a write");
	writer->WritesDone();
	require_status(writer->Finish(), grpc::OK);
	require(response.aggregated_payload_size() == 73086, "the sum");
}

void server_compressed_streaming(Stub &stub)
{
	grpc::ClientContext context;
	StreamingOutputCallRequest request = stream_request({31415, 92653}, 0);
	StreamingOutputCallResponse response;

	request.mutable_response_parameters(0)->mutable_compressed()->set_value(true);
	auto reader = stub.StreamingOutputCall(&context, request);
	for (const ResponseParameters &want : request.response_parameters()) {
		require(reader->Read(&response) && (int)response.payload().body().size() == want.size(), "a response");
		require(InteropClientContextInspector::was_compressed(context) == want.compressed().value(), "its compression");
	}
	require_status(reader->Finish(), grpc::OK);
}

void client_streaming(Stub &stub)
{
	grpc::ClientContext context;
	StreamingInputCallResponse response;
	auto writer = stub.StreamingInputCall(&context, &response);

	for (int n : requests) {
		StreamingInputCallRequest request;

		request.mutable_payload()->set_body(std::string(n, '\0'));
		require(writer->Write(request), "a write");
	}
	writer->WritesDone();
	require_status(writer->Finish(), grpc::OK);
	require(response.aggregated_payload_size() == 74922, "the sum");
}

void server_streaming(Stub &stub)
{
	grpc::ClientContext context;
	auto reader = stub.StreamingOutputCall(&context, stream_request(responses, 0));
	StreamingOutputCallResponse response;

	for (int size : responses)
		require(reader->Read(&response) && (int)response.payload().body().size() == size, "a response");
	require(!reader->Read(&response), "a response too many");
	require_status(reader->Finish(), grpc::OK);
}

void ping_pong(Stub &stub)
{
	grpc::ClientContext context;
	auto stream = stub.FullDuplexCall(&context);
	StreamingOutputCallResponse response;

	for (size_t i = 0; i < responses.size(); i++) {
		require(stream->Write(stream_request({responses[i]}, requests[i])), "a write");
		require(stream->Read(&response) && (int)response.payload().body().size() == responses[i], "a response");
	}
	stream->WritesDone();
	require(!stream->Read(&response), "a response too many");
	require_status(stream->Finish(), grpc::OK);
}

void empty_stream(Stub &stub)
{
	grpc::ClientContext context;
	auto stream = stub.FullDuplexCall(&context);
	StreamingOutputCallResponse response;

	stream->WritesDone();
	require(!stream->Read(&response), "a response");
	require_status(stream->Finish(), grpc::OK);
}

void require_metadata(const grpc::ClientContext &context)
{
	auto first = context.GetServerInitialMetadata().find(initial_key);
	auto last = context.GetServerTrailingMetadata().find(trailing_key);

	require(first != context.GetServerInitialMetadata().end() && first->second == initial_value, "initial metadata");
	require(last != context.GetServerTrailingMetadata().end() && last->second == trailing_value, "trailing metadata");
}

void custom_metadata(Stub &stub)
{
	grpc::ClientContext unary, duplex;
	StreamingOutputCallResponse response;

	for (grpc::ClientContext *context : {&unary, &duplex}) {
		context->AddMetadata(initial_key, initial_value);
		context->AddMetadata(trailing_key, trailing_value);
	}
	large_unary(stub, unary);
	require_metadata(unary);
	auto stream = stub.FullDuplexCall(&duplex);
	require(stream->Write(stream_request({314159}, 271828)) && stream->WritesDone(), "a write");
	require(stream->Read(&response) && !stream->Read(&response), "one response");
	require_status(stream->Finish(), grpc::OK);
	require_metadata(duplex);
}

void status_and_message(Stub &stub, const std::string &text)
{
	grpc::ClientContext unary, duplex;
	SimpleRequest request;
	SimpleResponse response;
	StreamingOutputCallRequest streamed;
	StreamingOutputCallResponse none;

	for (EchoStatus *status : {request.mutable_response_status(), streamed.mutable_response_status()}) {
		status->set_code(grpc::UNKNOWN);
		status->set_message(text);
	}
	grpc::Status status = stub.UnaryCall(&unary, request, &response);
	require_status(status, grpc::UNKNOWN);
	require(status.error_message() == text, status.error_message());
	auto stream = stub.FullDuplexCall(&duplex);
	stream->Write(streamed);
	stream->WritesDone();
	require(!stream->Read(&none), "a response");
	status = stream->Finish();
	require_status(status, grpc::UNKNOWN);
	require(status.error_message() == text, status.error_message());
}

void unimplemented(const char *method)
{
	grpc::ClientContext context;
	Empty response;
	grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);

	require_status(grpc::internal::BlockingUnaryCall(channel.get(), rpc, &context, Empty(), &response), grpc::UNIMPLEMENTED);
}

void cancel_after_begin(Stub &stub)
{
	grpc::ClientContext context;
	StreamingInputCallResponse response;
	auto writer = stub.StreamingInputCall(&context, &response);

	context.TryCancel();
	require_status(writer->Finish(), grpc::CANCELLED);
}

void cancel_after_first_response(Stub &stub)
{
	grpc::ClientContext context;
	auto stream = stub.FullDuplexCall(&context);
	StreamingOutputCallResponse response;

	require(stream->Write(stream_request({31415}, 27182)) && stream->Read(&response), "a response");
	context.TryCancel();
	require(!stream->Read(&response), "a response behind the cancellation");
	require_status(stream->Finish(), grpc::CANCELLED);
}

void timeout_on_sleeping_server(Stub &stub)
{
	grpc::ClientContext context;
	StreamingOutputCallResponse response;

	context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
	auto stream = stub.FullDuplexCall(&context);
	stream->Write(stream_request({31415}, 27182, 5000000));
	stream->Read(&response);
	require_status(stream->Finish(), grpc::DEADLINE_EXCEEDED);
}

std::shared_ptr<grpc::Channel> open_channel();

void rpc_soak(Stub &stub)
{
	for (int i = 0; i < soaks; i++) {
		grpc::ClientContext context;

		large_unary(stub, context);
	}
}

void channel_soak(Stub &)
{
	for (int i = 0; i < soaks; i++) {
		channel = open_channel();
		std::unique_ptr<Stub> stub = TestService::NewStub(channel);
		grpc::ClientContext context;

		large_unary(*stub, context);
	}
}

const char special[] = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n";

const std::map<std::string, std::function<void(Stub &)>> cases = {
    {"empty_unary", empty_unary},
    {"large_unary",
     [](Stub &stub) {
	     grpc::ClientContext context;

	     large_unary(stub, context);
     }},
    {"callback_unary", callback_unary},
    {"client_streaming", client_streaming},
    {"server_streaming", server_streaming},
    {"client_compressed_unary", client_compressed_unary},
    {"server_compressed_unary", server_compressed_unary},
    {"client_compressed_streaming", client_compressed_streaming},
    {"server_compressed_streaming", server_compressed_streaming},
    {"rpc_soak", rpc_soak},
    {"channel_soak", channel_soak},
    {"ping_pong", ping_pong},
    {"empty_stream", empty_stream},
    {"custom_metadata", custom_metadata},
    {"status_code_and_message", [](Stub &stub) { status_and_message(stub, "test status message"); }},
    {"special_status_message", [](Stub &stub) { status_and_message(stub, special); }},
    {"unimplemented_method", [](Stub &) { unimplemented("/grpc.testing.TestService/UnimplementedCall"); }},
    {"unimplemented_service", [](Stub &) { unimplemented("/grpc.testing.UnimplementedService/UnimplementedCall"); }},
    {"cancel_after_begin", cancel_after_begin},
    {"cancel_after_first_response", cancel_after_first_response},
    {"timeout_on_sleeping_server", timeout_on_sleeping_server},
};

std::shared_ptr<grpc::Channel> open_channel()
{
	grpc::ChannelArguments arguments;
	grpc::SslCredentialsOptions options;
	std::ostringstream text;

	if (!ca)
		return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
	text << std::ifstream(ca).rdbuf();
	options.pem_root_certs = text.str();
	arguments.SetSslTargetNameOverride("localhost");
	return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

} // namespace

int main(int argc, char **argv)
{
	ca = argc > 2 && !strcmp(argv[1], "--ca") ? argv[2] : nullptr;
	int at = ca ? 3 : 1;

	require(argc > at + 1, "usage: grpcpp_client [--ca FILE] HOST:PORT CASE...");
	address = argv[at];
	channel = open_channel();
	std::unique_ptr<Stub> stub = TestService::NewStub(channel);
	for (int i = at + 1; i < argc; i++) {
		require(cases.count(argv[i]), std::string("no case ") + argv[i]);
		cases.at(argv[i])(*stub);
		printf("%s: passed\n", argv[i]);
	}
	return 0;
}
