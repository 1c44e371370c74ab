// dictionary: a key-value store of dictionary.proto at shm:dictionary, and its client.
//   dictionary put color blue     prints the value that was there before; get color; scan c
#include <iostream>
#include <map>
#include <string>
#include <lend/grpc.h>
#include "dictionary.pb-c.h"

static std::map<std::string, std::string> store;
static const lend_pb_kind kinds[] = {LEND_PB_UNARY, LEND_PB_UNARY, LEND_PB_SERVER_STREAM};

static Kv__Pair pair_of(const char *key, const char *value)
{
	Kv__Pair pair = KV__PAIR__INIT;

	pair.key = const_cast<char *>(key);
	pair.value = const_cast<char *>(value);
	return pair;
}

static void kv_put(Kv__Store_Service *, const Kv__Pair *in, Kv__Pair_Closure closure, void *data)
{
	std::string value = in->value;
	store[in->key].swap(value);
	Kv__Pair out = pair_of(in->key, value.c_str());
	closure(&out, data);
}

static void kv_get(Kv__Store_Service *, const Kv__Pair *in, Kv__Pair_Closure closure, void *data)
{
	if (store.count(in->key) == 0)
		return lend_pb_fail(data, LEND_NOT_FOUND, "no such key");
	Kv__Pair out = pair_of(in->key, store[in->key].c_str());
	closure(&out, data);
}

// Sends the pairs from a key on until the client has to read, and later from there on.
static void send_pairs(void *stream, void *next)
{
	auto &key = *static_cast<std::string *>(next);

	for (auto item = store.lower_bound(key); item != store.end(); ++item) {
		Kv__Pair out = pair_of((key = item->first).c_str(), item->second.c_str());

		if (lend_pb_send(stream, &out.base, nullptr, nullptr) < 0)
			return;
	}
	lend_pb_fail(stream, LEND_OK, "");
}

static void kv_scan(Kv__Store_Service *, const Kv__Pair *in, Kv__Pair_Closure, void *stream)
{
	auto end = [](void *, void *next) { delete static_cast<std::string *>(next); };
	lend_pb_events events = {send_pairs, end, new std::string(in->key)};
	lend_pb_on(stream, &events);
	send_pairs(stream, events.arg);
}

static ProtobufCService *client;
static bool done;

static void print_pair(const Kv__Pair *pair, void *scan)
{
	done = !scan || !pair;
	if (pair)
		std::cout << (scan ? pair->key + std::string(" ") : "") << pair->value << '\n';
	else if (lend_pb_status(client) != LEND_OK)
		std::cerr << "dictionary: " << lend_pb_why(client) << '\n';
}

static int call_store(lend_ep *ep, char **argv)
{
	bool scan = argv[1] == std::string("scan");
	auto call = scan ? kv__store__scan : argv[3] ? kv__store__put : kv__store__get;
	Kv__Pair pair = pair_of(argv[2], argv[3] ? argv[3] : "");
	lend_session session;

	if (lend_connect(ep, "shm:dictionary", &session) < 0 ||
	    lend_pb_client(ep, session, &kv__store__descriptor, &client) < 0)
		return -1;
	lend_pb_client_kinds(client, kinds);
	call(client, &pair, print_pair, scan ? &done : nullptr);
	while (!done)
		lend_wait(ep, LEND_NEVER);
	return lend_pb_status(client);
}

int main(int argc, char **argv)
{
	Kv__Store_Service service = KV__STORE__INIT(kv_);
	lend_config config = LEND_CONFIG_INIT;
	lend_ep *ep = nullptr;

	config.listen = argc > 2 ? nullptr : "shm:dictionary";
	bool ok = !lend_open(&config, &ep) && !lend_pb_serve_kinds(ep, &service.base, kinds) &&
		  !(argc > 2 ? call_store(ep, argv) : lend_run(ep, LEND_NEVER));
	lend_close(ep);
	lend_pb_end(ep);
	return !ok;
}
