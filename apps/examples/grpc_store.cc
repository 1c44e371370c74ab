/* grpc_store - a key-value store of gRPC C++, which knows nothing of Lend: dictionary.proto.
 *
 * usage: grpc_store serve HOST:PORT | HOST:PORT SECONDS [IN_FLIGHT]
 *
 *   ./grpc_store serve 127.0.0.1:50051 &                    ./grpc_store 127.0.0.1:50051 2
 *   lend grpc-run ./grpc_store serve 127.0.0.1:50051 &      lend grpc-run ./grpc_store 127.0.0.1:50051 2
 *
 * The client stores pairs, then reads and changes them, checks each answer and prints how long half
 * of the calls took. scripts/grpc-demo.sh shows both as a picture. */
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dictionary.grpc.pb.h"

using std::chrono::steady_clock;

constexpr unsigned keys = 1000;

class Dictionary final : public kv::Store::Service
{
	grpc::Status Put(grpc::ServerContext *, const kv::Pair *in, kv::Pair *out) override
	{
		std::lock_guard<std::mutex> guard(lock);
		std::string &value = pairs[in->key()];

		out->set_key(in->key());
		out->set_value(value);
		value = in->value();
		return grpc::Status::OK;
	}

	grpc::Status Get(grpc::ServerContext *, const kv::Pair *in, kv::Pair *out) override
	{
		std::lock_guard<std::mutex> guard(lock);
		auto at = pairs.find(in->key());

		if (at == pairs.end())
			return {grpc::StatusCode::NOT_FOUND, "no such key"};
		out->set_key(at->first);
		out->set_value(at->second);
		return grpc::Status::OK;
	}

	grpc::Status Scan(grpc::ServerContext *, const kv::Pair *from,
			  grpc::ServerWriter<kv::Pair> *writer) override
	{
		std::lock_guard<std::mutex> guard(lock);

		for (auto at = pairs.lower_bound(from->key()); at != pairs.end(); ++at) {
			kv::Pair out;

			out.set_key(at->first);
			out.set_value(at->second);
			if (!writer->Write(out))
				break;
		}
		return grpc::Status::OK;
	}

	std::mutex lock;
	std::map<std::string, std::string> pairs;
};

static int serve(const std::string &address)
{
	grpc::ServerBuilder builder;
	Dictionary dictionary;

	builder.AddListeningPort(address, grpc::InsecureServerCredentials());
	builder.RegisterService(&dictionary);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server)
		return 1;
	std::puts("ready");
	std::fflush(stdout);
	server->Wait();
	return 0;
}

static kv::Pair pair_of(unsigned i)
{
	kv::Pair pair;

	pair.set_key("key" + std::to_string(i % keys));
	pair.set_value("value of " + pair.key());
	return pair;
}

[[noreturn]] static void fail(const std::string &what)
{
	std::fprintf(stderr, "grpc_store: %s\n", what.c_str());
	std::exit(1);
}

static void fill(kv::Store::Stub *stub)
{
	grpc::ClientContext scan;
	kv::Pair out;
	unsigned n = 0;

	for (unsigned i = 0; i < keys; i++) {
		grpc::ClientContext context;
		grpc::Status status = stub->Put(&context, pair_of(i), &out);

		if (!status.ok())
			fail(status.error_message());
	}
	for (auto reader = stub->Scan(&scan, kv::Pair()); reader->Read(&out);)
		n++;
	if (n != keys)
		fail("pairs are missing");
}

struct Call {
	grpc::ClientContext context;
	std::unique_ptr<grpc::ClientAsyncResponseReader<kv::Pair>> reader;
	kv::Pair in, out;
	grpc::Status status;
	steady_clock::time_point from;
};

/* Reads; one call in ten writes. */
static std::unique_ptr<Call> start(kv::Store::Stub *stub, grpc::CompletionQueue *queue, unsigned i)
{
	auto call = std::make_unique<Call>();

	call->in = pair_of(i);
	call->from = steady_clock::now();
	call->reader = i % 10 ? stub->AsyncGet(&call->context, call->in, queue)
			      : stub->AsyncPut(&call->context, call->in, queue);
	call->reader->Finish(&call->out, &call->status, call.get());
	return call;
}

static int measure(kv::Store::Stub *stub, double seconds, unsigned in_flight)
{
	const auto begin = steady_clock::now();
	const auto end = begin + std::chrono::duration_cast<steady_clock::duration>(
				     std::chrono::duration<double>(seconds));
	grpc::CompletionQueue queue;
	std::vector<double> us;
	unsigned started = 0, running = 0;
	void *tag;
	bool ok;

	for (; running < in_flight; running++)
		start(stub, &queue, started++).release();
	while (running && queue.Next(&tag, &ok)) {
		std::unique_ptr<Call> call(static_cast<Call *>(tag));
		const auto now = steady_clock::now();

		running--;
		if (!call->status.ok() || call->out.value() != call->in.value())
			fail("a wrong answer: " + call->status.error_message());
		us.push_back(std::chrono::duration<double, std::micro>(now - call->from).count());
		if (now >= end)
			continue;
		start(stub, &queue, started++).release();
		running++;
	}
	queue.Shutdown();
	while (queue.Next(&tag, &ok))
		;
	const double took = std::chrono::duration<double>(steady_clock::now() - begin).count();
	std::nth_element(us.begin(), us.begin() + static_cast<long>(us.size() / 2), us.end());
	std::printf("%zu calls, half of them in %.1f us, %.0f per second\n", us.size(),
		    us[us.size() / 2], static_cast<double>(us.size()) / took);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && argv[1] == std::string("serve"))
		return serve(argv[2]);
	if (argc < 3)
		fail("usage: grpc_store serve HOST:PORT | HOST:PORT SECONDS [IN_FLIGHT]");
	auto stub = kv::Store::NewStub(
	    grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
	fill(stub.get());
	return measure(stub.get(), std::atof(argv[2]),
		       argc > 3 ? static_cast<unsigned>(std::max(1, std::atoi(argv[3]))) : 1);
}
