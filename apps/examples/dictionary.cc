// dictionary: a key-value store of dictionary.proto at shm:dictionary, and its client.
//   dictionary put color blue        prints the value that was there before; get color
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <lend/grpc.h>

#include "dictionary.pb-c.h"

using Value = std::shared_ptr<std::string>;
static std::map<std::string, Value> store;

// Answers with a value, which stays until the reply has arrived: its bytes are sent in place.
static void send_pair(void *closure_data, const std::string &key, const Value &value)
{
	auto drop = [](void *held) { delete static_cast<Value *>(held); };
	Dictionary__Pair out = DICTIONARY__PAIR__INIT;

	out.key = const_cast<char *>(key.c_str());
	if (value)
		out.value = {value->size(), reinterpret_cast<uint8_t *>(value->data())};
	lend_pb_reply(closure_data, &out.base, drop, new Value(value));
}

static void dictionary_put(Dictionary__Dictionary_Service *, const Dictionary__Pair *in,
			   Dictionary__Pair_Closure, void *closure_data)
{
	auto item = store.try_emplace(in->key).first;
	auto value =
	    std::make_shared<std::string>(reinterpret_cast<char *>(in->value.data), in->value.len);

	send_pair(closure_data, item->first, std::exchange(item->second, value));
}

static void dictionary_get(Dictionary__Dictionary_Service *, const Dictionary__Key *in,
			   Dictionary__Pair_Closure, void *closure_data)
{
	auto item = store.find(in->key);

	if (item == store.end())
		lend_pb_fail(closure_data, LEND_NOT_FOUND, "no such key");
	else
		send_pair(closure_data, item->first, item->second);
}

static ProtobufCService *client;
static bool done, failed;

static void print_pair(const Dictionary__Pair *pair, void *)
{
	done = true;
	failed = !pair;
	if (pair)
		std::cout.write(reinterpret_cast<char *>(pair->value.data),
				static_cast<long>(pair->value.len))
		    << '\n';
	else
		std::cerr << "dictionary: " << lend_pb_why(client) << '\n';
}

static int call_store(lend_ep *ep, char **argv)
{
	Dictionary__Pair pair = DICTIONARY__PAIR__INIT;
	Dictionary__Key key = DICTIONARY__KEY__INIT;
	std::string value = argv[3] ? argv[3] : "";
	lend_session session;

	if (lend_connect(ep, "shm:dictionary", &session) < 0 ||
	    lend_pb_client(ep, session, &dictionary__dictionary__descriptor, &client) < 0)
		return -1;
	pair.key = key.key = argv[2];
	pair.value = {value.size(), reinterpret_cast<uint8_t *>(value.data())};
	if (argv[3])
		dictionary__dictionary__put(client, &pair, print_pair, nullptr);
	else
		dictionary__dictionary__get(client, &key, print_pair, nullptr);
	while (!done)
		lend_wait(ep, LEND_NEVER);
	return failed;
}

int main(int argc, char **argv)
{
	Dictionary__Dictionary_Service service = DICTIONARY__DICTIONARY__INIT(dictionary_);
	lend_config config = LEND_CONFIG_INIT;
	lend_ep *ep = nullptr;
	int rc;

	config.listen = argc > 2 ? nullptr : "shm:dictionary";
	if ((rc = lend_open(&config, &ep)) == 0 && argc > 2)
		rc = call_store(ep, argv);
	else if (rc == 0 && (rc = lend_pb_serve(ep, &service.base)) == 0)
		rc = lend_run(ep, LEND_NEVER);
	lend_close(ep);
	lend_pb_end(ep);
	return rc != 0;
}
