#include "pb/cxx_oracle.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include "every.pb.h"
#include "every2.pb.h"

extern "C" {
#include "util/utf8.h"
}

using namespace google::protobuf;

/* Ends strings at their first zero byte, as they end in C. Returns whether one is not UTF-8. */
static bool end_strings(Message *m)
{
	const Reflection *r = m->GetReflection();
	std::vector<const FieldDescriptor *> fields;
	bool bad = false;

	r->ListFields(*m, &fields);
	for (const FieldDescriptor *f : fields) {
		int n = f->is_repeated() ? r->FieldSize(*m, f) : 1;

		for (int i = 0; i < n; i++) {
			if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
				bad |= end_strings(f->is_repeated()
						       ? r->MutableRepeatedMessage(m, f, i)
						       : r->MutableMessage(m, f));
			} else if (f->type() == FieldDescriptor::TYPE_STRING) {
				std::string s = f->is_repeated() ? r->GetRepeatedString(*m, f, i)
								 : r->GetString(*m, f);

				bad |= !lend_utf8_valid((const uint8_t *)s.data(), s.size());
				s = s.c_str();
				if (f->is_repeated())
					r->SetRepeatedString(m, f, i, s);
				else
					r->SetString(m, f, s);
			}
		}
	}
	return bad;
}

bool oracle_reparse(const char *type, const void *bytes, size_t len, void **out, size_t *out_len,
		    bool *bad_utf8)
{
	static LogSilencer silent;
	static const bool linked = lend_test::Every::descriptor() && lend_test2::Every2::descriptor();
	const Descriptor *d = DescriptorPool::generated_pool()->FindMessageTypeByName(type);
	std::unique_ptr<Message> m(MessageFactory::generated_factory()->GetPrototype(d)->New());
	std::string text;

	(void)silent, (void)linked;
	if (!m->ParseFromArray(bytes, (int)len))
		return false;
	*bad_utf8 = end_strings(m.get());
	{
		io::StringOutputStream stream(&text);
		io::CodedOutputStream coded(&stream);

		coded.SetSerializationDeterministic(true);
		m->SerializeToCodedStream(&coded);
	}
	*out = malloc(text.size() + 1);
	memcpy(*out, text.data(), text.size());
	*out_len = text.size();
	return true;
}
