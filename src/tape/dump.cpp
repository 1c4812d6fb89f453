// The tape as text: for messages, and for tests that compare whole tapes.
#include "base/plain_numbers.h"
#include "tape/tape.h"

namespace encore::tape {
namespace {

std::string scalar_text(const c10::IValue& value) {
  PlainStream out;
  if (value.isNone()) {
    out << "none";
  } else if (value.isBool()) {
    out << (value.toBool() ? "true" : "false");
  } else if (value.isInt()) {
    out << value.toInt();
  } else if (value.isDouble()) {
    out << value.toDouble();
  } else if (value.isString()) {
    out << '"' << value.toStringRef() << '"';
  } else if (value.isIntList()) {
    out << '(';
    const auto list = value.toIntVector();
    for (size_t i = 0; i < list.size(); ++i) {
      out << (i == 0 ? "" : " ") << list[i];
    }
    out << ')';
  } else {
    out << '?';
  }
  return out.str();
}

}  // namespace

std::string Tape::describe_op(OpId id) const {
  const Op& op = ops_[static_cast<size_t>(id)];
  return op.info->name + " (op " + std::to_string(id) + (name().empty() ? ")" : " of '" + name() + "')");
}

std::string Tape::describe_source(ValueId id) const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (const TensorArg& arg : ops_[i].tensors) {
      if (arg.value == id) {
        return "the tensor " + arg.geometry->text() + ", argument '" +
               ops_[i].info->handle.schema().arguments()[arg.arg].name() + "' of " + describe_op(static_cast<OpId>(i)) +
               ",";
      }
    }
  }
  return "a tensor of " + std::to_string(value(id).nbytes) + " bytes";
}

std::string Tape::dump() const {
  PlainStream out;
  out << "tape '" << name() << "': " << ops_.size() << " ops, " << values_.size() << " values\n";
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = ops_[i];
    out << i << ": " << op.info->name << '(';
    size_t tensor = 0;
    for (size_t a = 0; a < op.args.size(); ++a) {
      out << (a == 0 ? "" : ", ");
      if (tensor >= op.tensors.size() || op.tensors[tensor].arg != a) {
        out << scalar_text(op.args[a]);
        continue;
      }
      for (bool first = true; tensor < op.tensors.size() && op.tensors[tensor].arg == a; ++tensor, first = false) {
        const TensorArg& arg = op.tensors[tensor];
        out << (first ? "" : " ");
        if (arg.value == kNone) {
          out << "none";
        } else {
          out << '%' << arg.value << (value(arg.value).source ? "s " : " ") << arg.geometry->text();
        }
      }
    }
    out << ')';
    for (const Write& write : op.writes) {
      out << " writes %" << write.before << "->%" << write.after << (write.full ? " full" : "")
          << (write.state ? " state" : "");
    }
    if (!op.outputs.empty()) {
      out << " ->";
    }
    for (const Output& output : op.outputs) {
      out << (output.value == kNone ? std::string(" none") : " %" + std::to_string(output.value));
      if (output.value != kNone) {
        out << ' ' << output.geometry->text();
      }
    }
    out << (op.random ? " random" : "") << (op.opaque ? " opaque" : "") << '\n';
  }
  return out.str();
}

}  // namespace encore::tape
