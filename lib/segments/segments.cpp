// The segment interface, over the session's public one.
//
// A segment's items are its input, under the name "in", and what each of its operations writes, packed into one item
// under the operation's name. The items of `forward_by` are those of one operation that writes everything. Tensors of
// the trainer's own are the pieces of an item that keeps its place.
#include "ferry/segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/rehearsal.hpp"
#include "support/enough_words.hpp"

namespace ferry {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t rounded(std::size_t bytes) noexcept { return (bytes + alignment - 1) / alignment * alignment; }

struct declared_tensor {
  label name;
  std::size_t bytes = 0;
  tensor_place place;
  std::optional<std::size_t> written_by;  // operation
  std::size_t offset = 0;                 // in the operation's item, where that is Ferry's memory
};

struct declared_operation {
  label name;
  std::vector<tensor_id> reads;
  std::vector<tensor_id> writes;  // without the output
  bool writes_output = false;
  segment_function run;
  std::size_t bytes = 0;  // of its item
  bool in_place = false;
};

/// Segments that are all alike.
struct segment_kind {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<declared_tensor> tensors;
  std::vector<declared_operation> operations;
  segment_function backward;
  std::vector<tensor_id> backward_reads;
  bool backward_reads_all = true;
};

void* place_in(tensor_place const& array, std::size_t bytes, std::uint32_t index) noexcept {
  std::size_t const stride = array.stride_bytes > 0 ? array.stride_bytes : bytes;
  return static_cast<std::byte*>(array.first) + index * stride;
}

}  // namespace

void* segment_call::address_of(tensor_id of) const {
  if (of == segment_input && in != nullptr) return const_cast<void*>(in);
  if (of == segment_output && out != nullptr) return out;
  if (of < tensors.size() && tensors[of] != nullptr) return tensors[of];
  throw invalid_argument(fmt::format(
      "segment {}: tensor {} is not used here; declare it, and what each operation and backward read", index,
      of == segment_input    ? "segment_input"
      : of == segment_output ? "segment_output"
                             : std::to_string(of)));
}

class segments_core {
 public:
  segments_core(std::optional<config> settings, session* in, stream_ref stream, std::uint32_t count,
                std::size_t output_bytes, tensor_place outputs)
      : settings_(std::move(settings)), session_(in), stream_(stream), x_bytes_(output_bytes), outputs_(outputs) {
    if (output_bytes == 0) throw invalid_argument("segments: an output of zero bytes");
    add_kind(count);
  }
  ~segments_core() { abandon(); }

  /// For as long as a call lasts: no other may begin meanwhile.
  class turn {
   public:
    explicit turn(segments_core& of) : of_(of) {
      if (of.busy_.exchange(true, std::memory_order_acquire)) {
        throw error("segments: a call is under way, of another thread or the one whose function this is; wait for it");
      }
    }
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() { of_.busy_.store(false, std::memory_order_release); }

   private:
    segments_core& of_;
  };

  // Declarations.
  void add_kind(std::uint32_t count);
  tensor_id add_tensor(label const& name, std::size_t bytes, tensor_place place);
  void add_operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> const& writes,
                     segment_function run);
  void set_forward(segment_function run);
  void set_backward(std::optional<std::vector<tensor_id>> reads, segment_function run);
  void resize(tensor_id of, std::size_t bytes);
  void resize_output(std::size_t bytes);

  // Steps.
  void begin(step_kind kind);
  void* input();
  void forward(std::uint32_t segment);
  void* output();
  void backward(std::uint32_t segment);
  void end();
  void abandon() noexcept;
  /// From within a function of the trainer's there is nothing to do: one that throws ends the step.
  void abandon_if_nobody_else_is_at_it() noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    abandon();
    busy_.store(false, std::memory_order_release);
  }

  [[nodiscard]] std::uint32_t count() const noexcept { return kinds_.back().first + kinds_.back().count; }
  [[nodiscard]] std::uint32_t next_forward() const noexcept { return forward_done_; }
  [[nodiscard]] std::uint32_t backward_left() const noexcept { return backward_left_; }
  [[nodiscard]] std::size_t keep_all_bytes() const;
  /// For want of room: with the budget that is enough for whole steps, if the session was made here.
  [[nodiscard]] std::optional<out_of_device_memory> advised(out_of_device_memory const& problem,
                                                            std::uint32_t micro_batches) const;
  [[nodiscard]] session& in_session() {
    if (session_ == nullptr) throw error("segments: the session is made when the first step begins; begin one first");
    return *session_;
  }

 private:
  enum class phase : std::uint8_t { idle, begun, has_input, forward, backward };

  [[nodiscard]] segment_kind& declaring();
  void require_tensor(segment_kind const& kind, tensor_id of, char const* what) const;
  void require_complete() const;
  void lay_out();
  void run_step(std::uint32_t micro_batches);
  template <typename Call>
  void or_abandon(Call call);
  [[nodiscard]] bool has_room_for_all() const { return made_for_bytes_ == 0 || keep_all_bytes() <= made_for_bytes_; }
  [[noreturn]] void throw_too_large() const;
  [[nodiscard]] std::size_t check_bytes() const;
  void make_session();
  void require(bool right, char const* call, char const* instead) const {
    if (!right) throw error(fmt::format("segments: {} {}", call, instead));
  }
  [[nodiscard]] segment_kind const& kind_of(std::uint32_t segment) const noexcept {
    return *std::ranges::find_if(kinds_, [&](auto const& kind) { return segment < kind.first + kind.count; });
  }
  [[nodiscard]] item_key x_key(std::uint32_t segment) const noexcept { return {micro_batch_, segment, "in"}; }
  [[nodiscard]] item_key key_of(std::uint32_t segment, declared_operation const& op) const noexcept {
    return {micro_batch_, segment, op.name};
  }
  [[nodiscard]] block allocate_x(std::uint32_t segment);
  [[nodiscard]] block allocate_for(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  void set_tensors(std::vector<void*>& at, segment_kind const& kind, declared_operation const& op,
                   std::uint32_t segment, void* packed) const;
  [[nodiscard]] recipe tensors_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  [[nodiscard]] recipe output_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment);
  [[nodiscard]] item_list inputs_of(segment_kind const& kind, declared_operation const& op,
                                    std::uint32_t segment) const;
  void run_again(segment_kind const& kind, declared_operation const& op, std::uint32_t segment,
                 recipe_context const& to, void* packed, void* out);
  void wait_if_at_once(stream_ref on) const {
    if (at_once_) on.owner()->synchronize(on);
  }
  void save_input(std::uint32_t segment, recipe how);
  void run_forward(std::uint32_t segment);
  void run_backward(std::uint32_t segment);
  [[nodiscard]] bool backward_reads(segment_kind const& kind, tensor_id of) const {
    if (kind.backward_reads_all) return of != segment_output;
    return std::ranges::find(kind.backward_reads, of) != kind.backward_reads.end();
  }

  std::optional<config> settings_;  // to make a session with
  std::unique_ptr<device> own_device_;
  std::optional<stream> own_stream_;
  std::optional<session> own_session_;
  std::size_t made_for_bytes_ = 0;  // what keeping everything took then; 0: there is no limit
  session* session_;
  stream_ref stream_;
  bool at_once_ = !stream_;
  std::size_t x_bytes_;
  tensor_place outputs_;
  std::vector<segment_kind> kinds_;
  bool declared_ = false;

  // The step under way.
  phase phase_ = phase::idle;
  step_kind kind_ = step_kind::train;
  std::uint32_t micro_batch_ = 0;
  std::uint32_t forward_done_ = 0;
  std::uint32_t backward_left_ = 0;
  block x_;                   // the next segment's input, before it is saved, and the last output
  std::vector<void*> at_;     // of the tensors in the call at hand
  std::vector<void*> again_;  // of those in a recipe
  std::vector<lease> held_;
  std::vector<block> written_;
  std::atomic<bool> busy_{false};
};

// ---- declarations

void segments_core::add_kind(std::uint32_t count) {
  if (declared_) throw error("segments: a step has begun; declare everything before the first one");
  if (count == 0) throw invalid_argument("segments: zero segments");
  std::uint32_t const first = kinds_.empty() ? 0 : this->count();
  kinds_.push_back({first, count, {}, {}, {}, {}, true});
}

segment_kind& segments_core::declaring() {
  if (declared_) throw error("segments: a step has begun; declare everything before the first one");
  return kinds_.back();
}

tensor_id segments_core::add_tensor(label const& name, std::size_t bytes, tensor_place place) {
  auto& kind = declaring();
  if (bytes == 0) throw invalid_argument(fmt::format("segments: tensor '{}' has zero bytes", name.view()));
  if (std::ranges::any_of(kind.tensors, [&](auto const& known) { return known.name == name; })) {
    throw invalid_argument(fmt::format("segments: two tensors are called '{}'; give one another name", name.view()));
  }
  if (place.first != nullptr && place.stride_bytes != 0 && place.stride_bytes < bytes) {
    throw invalid_argument(fmt::format("segments: tensor '{}' has {} bytes, but the next segment's begins after {}",
                                       name.view(), bytes, place.stride_bytes));
  }
  if (!kind.operations.empty()) {
    throw error(
        fmt::format("segments: tensor '{}' is declared after what writes it; declare tensors first", name.view()));
  }
  kind.tensors.push_back({name, bytes, place, std::nullopt, 0});
  return kind.tensors.size() - 1;
}

void segments_core::require_tensor(segment_kind const& kind, tensor_id of, char const* what) const {
  if (of == segment_input || of == segment_output || of < kind.tensors.size()) return;
  throw invalid_argument(fmt::format("segments: {} tensor {}, but {} are declared", what, of, kind.tensors.size()));
}

void segments_core::add_operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> const& writes,
                                  segment_function run) {
  auto& kind = declaring();
  if (!run) throw invalid_argument(fmt::format("segments: operation '{}' has no function", name.view()));
  if (name.view() == "in" || std::ranges::any_of(kind.operations, [&](auto const& op) { return op.name == name; })) {
    throw invalid_argument(
        fmt::format("segments: another operation is called '{}'; give it another name", name.view()));
  }
  declared_operation op{name, std::move(reads), {}, false, std::move(run), 0, false};
  for (auto const id : op.reads) {
    require_tensor(kind, id, "an operation reads");
    bool const written = id == segment_input || (id < kind.tensors.size() && kind.tensors[id].written_by);
    if (!written) {
      throw invalid_argument(
          fmt::format("segments: operation '{}' reads what no operation before it has written", name.view()));
    }
  }
  for (auto const id : writes) {
    require_tensor(kind, id, "an operation writes");
    bool const twice =
        id == segment_output
            ? op.writes_output || std::ranges::any_of(kind.operations, &declared_operation::writes_output)
            : id == segment_input || kind.tensors[id].written_by.has_value();
    if (twice) {
      throw invalid_argument(fmt::format("segments: operation '{}' writes {}, which {}", name.view(),
                                         id == segment_output  ? "the output"
                                         : id == segment_input ? "the input"
                                                               : fmt::format("'{}'", kind.tensors[id].name.view()),
                                         id == segment_input ? "is the output of the segment before"
                                                             : "is written already; let one operation write it"));
    }
    if (id == segment_output) {
      op.writes_output = true;
    } else {
      kind.tensors[id].written_by = kind.operations.size();
      op.writes.push_back(id);
    }
  }
  if (op.writes.empty() && !op.writes_output) {
    throw invalid_argument(fmt::format("segments: operation '{}' writes nothing", name.view()));
  }
  bool const own = !op.writes.empty() && kind.tensors[op.writes.front()].place.first != nullptr;
  for (auto const id : op.writes) {
    if ((kind.tensors[id].place.first != nullptr) != own) {
      throw invalid_argument(
          fmt::format("segments: operation '{}' writes tensors of Ferry's memory and of your own; "
                      "give all of them a place, or none",
                      name.view()));
    }
  }
  op.in_place = own;
  kind.operations.push_back(std::move(op));
}

void segments_core::set_forward(segment_function run) {
  auto& kind = declaring();
  if (!kind.operations.empty()) throw error("segments: forward_by stands for all operations; use one or the other");
  std::vector<tensor_id> writes(kind.tensors.size());
  std::iota(writes.begin(), writes.end(), tensor_id{0});
  writes.push_back(segment_output);
  add_operation("saved", {segment_input}, writes, std::move(run));
}

void segments_core::set_backward(std::optional<std::vector<tensor_id>> reads, segment_function run) {
  auto& kind = declaring();
  if (!run) throw invalid_argument("segments: backward has no function");
  if (kind.backward) throw error("segments: backward is declared already");
  kind.backward_reads_all = !reads;
  if (reads) {
    for (auto const id : *reads) require_tensor(kind, id, "backward reads");
    kind.backward_reads = std::move(*reads);
  }
  kind.backward = std::move(run);
}

void segments_core::require_complete() const {
  for (auto const& kind : kinds_) {
    auto const which =
        kinds_.size() == 1 ? std::string() : fmt::format(" of the kind that begins with segment {}", kind.first);
    if (!kind.backward) throw error(fmt::format("segments: there is no backward{}; call backward_by", which));
    if (!std::ranges::any_of(kind.operations, &declared_operation::writes_output)) {
      throw error(
          fmt::format("segments: nothing writes the output{}; call forward_by, or declare the operation", which));
    }
    for (auto const& tensor : kind.tensors) {
      if (!tensor.written_by) {
        throw error(fmt::format("segments: no operation writes '{}'{}", tensor.name.view(), which));
      }
    }
  }
}

/// Where each tensor lies in its operation's item.
void segments_core::lay_out() {
  for (auto& kind : kinds_) {
    for (auto& op : kind.operations) {
      op.bytes = 0;
      for (auto const id : op.writes) {
        auto& tensor = kind.tensors[id];
        tensor.offset = op.bytes;
        op.bytes += op.in_place ? tensor.bytes : rounded(tensor.bytes);
      }
    }
  }
}

void segments_core::resize(tensor_id of, std::size_t bytes) {
  require(phase_ == phase::idle, "resize", "is for between steps; end the one under way first");
  auto& kind = kinds_.back();
  if (kinds_.size() > 1) throw error("segments: resize is for segments of one kind");
  if (of >= kind.tensors.size() || bytes == 0) {
    throw invalid_argument(
        fmt::format("segments: resize of tensor {} to {} bytes; {} are declared", of, bytes, kind.tensors.size()));
  }
  auto& tensor = kind.tensors[of];
  if (tensor.place.first != nullptr) {
    if (tensor.place.stride_bytes == 0) tensor.place.stride_bytes = tensor.bytes;
    if (bytes > tensor.place.stride_bytes) {
      throw invalid_argument(fmt::format("segments: resize of '{}' to {} bytes, but the next segment's begins after {}",
                                         tensor.name.view(), bytes, tensor.place.stride_bytes));
    }
  }
  std::size_t const before = std::exchange(tensor.bytes, bytes);
  if (has_room_for_all()) return lay_out();
  tensor.bytes = before;
  throw_too_large();
}

void segments_core::throw_too_large() const {
  throw invalid_argument(fmt::format(
      "segments: keeping everything would take more than the {} that it took in the first step; begin with the largest "
      "batch, or make a session of your own",
      format_bytes(made_for_bytes_)));
}

void segments_core::resize_output(std::size_t bytes) {
  require(phase_ == phase::idle, "resize_output", "is for between steps; end the one under way first");
  if (bytes == 0) throw invalid_argument("segments: an output of zero bytes");
  if (outputs_.first != nullptr) {
    if (outputs_.stride_bytes == 0) outputs_.stride_bytes = x_bytes_;
    if (bytes > outputs_.stride_bytes) {
      throw invalid_argument(fmt::format("segments: an output of {} bytes, but the next one begins after {}", bytes,
                                         outputs_.stride_bytes));
    }
  }
  std::size_t const before = std::exchange(x_bytes_, bytes);
  if (has_room_for_all()) return;
  x_bytes_ = before;
  throw_too_large();
}

std::size_t segments_core::keep_all_bytes() const {
  std::size_t sum = rounded(x_bytes_) * (count() + 1);
  for (auto const& kind : kinds_) {
    for (auto const& tensor : kind.tensors) sum += kind.count * rounded(tensor.bytes);
  }
  return sum;
}

/// What any function needs to write beside what is there already: so FERRY_VERIFY=recipes can check it.
std::size_t segments_core::check_bytes() const {
  std::size_t most = 0;
  for (auto const& kind : kinds_) {
    for (auto const& op : kind.operations) most = std::max(most, op.in_place ? 0 : op.bytes);
  }
  return rounded(most) + rounded(x_bytes_);
}

// ---- steps

/// Without a budget everything is kept, as the trainer did before.
void segments_core::make_session() {
  config chosen = *settings_;
  std::size_t const all = keep_all_bytes();
  bool const given = chosen.budget_given || !(chosen.budget == config().budget);
  if (chosen.device == "auto") chosen.device = "host";
  // More than everything takes, and what is checked a second time, would be of no use; and where that is there, nothing
  // has to be decided.
  std::size_t const most = all + (verifies(chosen.verify, verify_mode::recipes) ? check_bytes() : 0);
  if (chosen.device_bytes == 0) chosen.device_bytes = most;
  bool const automatic = chosen.policy.kind == policy_kind::automatic;
  if (!given && automatic) chosen.policy.kind = policy_kind::keep;
  // What is ferried lies in the machine's memory, and on the host device the rest does too: nothing would be won.
  bool const host_budget_given = !(chosen.host_budget == config().host_budget);
  if (automatic && chosen.device == "host" && !host_budget_given) chosen.host_budget = {};
  std::size_t const unasked = std::clamp(chosen.device_bytes, all, most);
  chosen.budget = byte_amount::exactly(given ? std::min(chosen.budget.of(all), most) : unasked);
  if (chosen.pinned_bytes == 0) chosen.pinned_bytes = std::max<std::size_t>(all, std::size_t{1} << 20);
  chosen.advise = false;  // here more is known of a step than the session has seen
  auto on = make_device(chosen);
  stream compute(*on, stream_kind::compute, "segments");
  own_session_.emplace(*on, chosen);
  own_stream_.emplace(std::move(compute));
  own_device_ = std::move(on);
  made_for_bytes_ = all;
  session_ = &*own_session_;
  stream_ = *own_stream_;
}

void segments_core::begin(step_kind kind) {
  require(phase_ == phase::idle, "begin_step", "in a step; end that one first");
  if (!declared_) {
    require_complete();
    lay_out();
    declared_ = true;
  }
  if (session_ == nullptr) make_session();
  session_->begin_step(kind);
  kind_ = kind;
  micro_batch_ = 0;
  forward_done_ = backward_left_ = 0;
  phase_ = phase::begun;
}

block segments_core::allocate_x(std::uint32_t segment) {
  if (segment == 0 || outputs_.first == nullptr) return session_->allocate(x_bytes_, stream_, "in");
  device_view const at{place_in(outputs_, x_bytes_, segment - 1), x_bytes_};
  return session_->allocate_at({&at, 1}, stream_, "in");
}

block segments_core::allocate_for(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  if (op.writes.empty()) return {};
  if (!op.in_place) return session_->allocate(op.bytes, stream_, op.name);
  boost::container::small_vector<device_view, 32> pieces;
  for (auto const id : op.writes) {
    auto const& tensor = kind.tensors[id];
    pieces.push_back({place_in(tensor.place, tensor.bytes, segment - kind.first), tensor.bytes});
  }
  return session_->allocate_at({pieces.data(), pieces.size()}, stream_, op.name);
}

void segments_core::set_tensors(std::vector<void*>& at, segment_kind const& kind, declared_operation const& op,
                                std::uint32_t segment, void* packed) const {
  for (auto const id : op.writes) {
    auto const& tensor = kind.tensors[id];
    at[id] = op.in_place ? place_in(tensor.place, tensor.bytes, segment - kind.first)
                         : static_cast<std::byte*>(packed) + tensor.offset;
  }
}

void* segments_core::input() {
  require(phase_ != phase::idle, "input", "without a step; begin one first");
  bool const next = phase_ == phase::backward && backward_left_ == 0;
  require(phase_ == phase::begun || phase_ == phase::has_input || next, "input",
          "in the midst of forward or backward; it comes before forward");
  if (phase_ == phase::has_input) return x_.data();
  if (next) ++micro_batch_;
  forward_done_ = 0;
  x_ = {};
  or_abandon([&] { x_ = allocate_x(0); });
  wait_if_at_once(stream_);
  phase_ = phase::has_input;
  return x_.data();
}

/// The keys of what an operation reads: each item once.
item_list segments_core::inputs_of(segment_kind const& kind, declared_operation const& op,
                                   std::uint32_t segment) const {
  boost::container::small_vector<item_key, 8> keys;
  for (auto const id : op.reads) {
    auto const key =
        id == segment_input ? x_key(segment) : key_of(segment, kind.operations[*kind.tensors[id].written_by]);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return item_list(std::span<item_key const>(keys.data(), keys.size()));
}

/// The operation once more: what it reads is where the recipe has it.
void segments_core::run_again(segment_kind const& kind, declared_operation const& op, std::uint32_t segment,
                              recipe_context const& to, void* packed, void* out) {
  again_.assign(kind.tensors.size(), nullptr);
  void const* in = nullptr;
  boost::container::small_vector<item_key, 8> seen;
  for (auto const id : op.reads) {
    auto const* const source = id == segment_input ? nullptr : &kind.operations[*kind.tensors[id].written_by];
    auto const key = source == nullptr ? x_key(segment) : key_of(segment, *source);
    auto found = std::ranges::find(seen, key);
    if (found == seen.end()) found = seen.insert(seen.end(), key);
    void* const item = const_cast<void*>(to.inputs[static_cast<std::size_t>(found - seen.begin())]);
    if (source == nullptr) {
      in = item;
    } else {
      auto const& tensor = kind.tensors[id];
      again_[id] = source->in_place ? place_in(tensor.place, tensor.bytes, segment - kind.first)
                                    : static_cast<std::byte*>(item) + tensor.offset;
    }
  }
  set_tensors(again_, kind, op, segment, packed);
  wait_if_at_once(to.stream);
  op.run({segment, to.stream, in, out, again_});
}

recipe segments_core::tensors_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  recipe how;
  how.inputs = inputs_of(kind, op, segment);
  how.scratch_bytes = op.writes_output ? x_bytes_ : 0;
  how.enqueue = [this, &kind, &op, segment](recipe_context const& to) {
    run_again(kind, op, segment, to, to.output, to.scratch);
  };
  return how;
}

/// The output can be rebuilt where the operation's other results need not be the trainer's own arrays, which may hold
/// something else by then.
recipe segments_core::output_recipe(segment_kind const& kind, declared_operation const& op, std::uint32_t segment) {
  recipe how;
  if (op.in_place) return how;
  how.inputs = inputs_of(kind, op, segment);
  how.scratch_bytes = op.bytes;
  how.enqueue = [this, &kind, &op, segment](recipe_context const& to) {
    run_again(kind, op, segment, to, to.scratch, to.output);
  };
  return how;
}

void segments_core::forward(std::uint32_t segment) {
  bool const right =
      (phase_ == phase::has_input || phase_ == phase::forward) && segment == forward_done_ && segment < count();
  require(right, fmt::format("forward of segment {}", segment).c_str(),
          phase_ == phase::idle    ? "without a step; begin one first"
          : phase_ == phase::begun ? "without an input; call input() and write it first"
                                   : "out of order; every segment runs once, from the first to the last");
  or_abandon([&] { run_forward(segment); });
  phase_ = phase::forward;
  ++forward_done_;
  if (forward_done_ == count()) backward_left_ = count();
}

void segments_core::run_forward(std::uint32_t segment) {
  auto const& kind = kind_of(segment);
  bool const training = kind_ == step_kind::train;
  session::segment_scope const here(*session_, pass::forward, segment, stream_, micro_batch_);
  lease x;
  void const* in = x_.data();
  if (training) {
    auto const* const before = segment == 0 ? nullptr : &kind_of(segment - 1);
    recipe how;
    if (before != nullptr) {
      auto const& op = *std::ranges::find_if(before->operations, &declared_operation::writes_output);
      how = output_recipe(*before, op, segment - 1);
    }
    x = session_->save(x_key(segment), std::move(x_), stream_, std::move(how));
  }
  at_.assign(kind.tensors.size(), nullptr);
  block out = allocate_x(segment + 1);
  for (auto const& op : kind.operations) {
    written_.push_back(allocate_for(kind, op, segment));
    set_tensors(at_, kind, op, segment, written_.back().data());
    // Nothing but what it will be given when it runs again.
    again_.assign(kind.tensors.size(), nullptr);
    for (auto const id : op.writes) again_[id] = at_[id];
    void const* read = nullptr;
    for (auto const id : op.reads) {
      if (id == segment_input) {
        read = in;
      } else {
        again_[id] = at_[id];
      }
    }
    wait_if_at_once(stream_);
    op.run({segment, stream_, read, op.writes_output ? out.data() : nullptr, again_});
    if (!training || op.writes.empty()) continue;
    held_.push_back(
        session_->save(key_of(segment, op), std::move(written_.back()), stream_, tensors_recipe(kind, op, segment)));
  }
  held_.clear();
  written_.clear();
  x_ = std::move(out);
}

void* segments_core::output() {
  require(phase_ == phase::forward && forward_done_ == count(), "output", "before forward has run every segment");
  wait_if_at_once(stream_);
  return x_.data();
}

void segments_core::backward(std::uint32_t segment) {
  require(kind_ == step_kind::train || phase_ == phase::idle, "backward", "in an evaluation; begin a training step");
  bool const right =
      (phase_ == phase::forward || phase_ == phase::backward) && backward_left_ > 0 && segment + 1 == backward_left_;
  require(right, fmt::format("backward of segment {}", segment).c_str(),
          phase_ == phase::idle ? "without a step; begin one first"
          : backward_left_ == 0 ? "before forward has run every segment, or a second time"
                                : "out of order; every segment runs once, from the last to the first");
  phase_ = phase::backward;
  or_abandon([&] { run_backward(segment); });
  --backward_left_;
}

/// What is thrown meanwhile ends the step.
template <typename Call>
void segments_core::or_abandon(Call call) {
  try {
    call();
  } catch (out_of_device_memory const& problem) {
    std::uint32_t const micro_batches = micro_batch_ + 1;
    abandon();
    if (auto const told = advised(problem, micro_batches)) throw *told;
    throw;
  } catch (...) {
    abandon();
    throw;
  }
}

std::optional<out_of_device_memory> segments_core::advised(out_of_device_memory const& problem,
                                                           std::uint32_t micro_batches) const {
  // Functions may have thrown it too.
  bool const ours = own_session_ && typeid(problem) == typeid(out_of_device_memory) &&
                    problem.limit_bytes() == own_session_->stats().device.limit_bytes;
  if (!ours || !settings_->advise) return std::nullopt;
  try {
    std::size_t largest = x_bytes_;
    for (auto const& kind : kinds_) {
      for (auto const& op : kind.operations) largest = std::max(largest, op.bytes);
    }
    std::size_t const all = keep_all_bytes();
    constexpr std::size_t fineness = 1024;
    constexpr std::size_t kib = 1024;
    rehearsal stage({.settings = own_session_->settings(),
                     .most_bytes = micro_batches * all,
                     .unit_bytes = (all / fineness / kib + 1) * kib,
                     .pinned_bytes = 0,
                     .margin_bytes = largest,
                     .too_small_bytes = problem.limit_bytes()});
    stream const compute(stage.on(), stream_kind::compute, "rehearsal");
    std::size_t const enough = stage.smallest_budget([&](session& on) {
      segments_core copy(std::nullopt, &on, compute, 1, x_bytes_, outputs_);
      copy.kinds_ = kinds_;
      auto const compute_nothing = [](segment_call const&) {};
      for (auto& kind : copy.kinds_) {
        for (auto& op : kind.operations) op.run = compute_nothing;
        kind.backward = compute_nothing;
      }
      constexpr int steps = 3;  // the first finds out what later ones act on
      for (int i = 0; i < steps; ++i) copy.run_step(micro_batches);
    });
    if (enough == 0) return std::nullopt;
    std::size_t const has = own_device_->capabilities().device_bytes;
    // Of more than everything takes, and of a device that was made for that, nothing need be said.
    std::size_t const device_bytes = settings_->device_bytes == 0 && enough > has ? enough : has;
    return out_of_device_memory(
        fmt::format("{}. {}", problem.what(), support::enough_words(enough, device_bytes, "whole steps")),
        problem.needed_bytes(), problem.limit_bytes(), enough);
  } catch (std::exception const&) {
    return std::nullopt;  // the error is what matters
  }
}

void segments_core::run_step(std::uint32_t micro_batches) {
  begin(step_kind::train);
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    static_cast<void>(input());
    for (std::uint32_t segment = 0; segment < count(); ++segment) forward(segment);
    for (std::uint32_t segment = count(); segment-- > 0;) backward(segment);
  }
  end();
}

void segments_core::run_backward(std::uint32_t segment) {
  auto const& kind = kind_of(segment);
  bool const last = segment + 1 == count();
  bool const reads_output = backward_reads(kind, segment_output);
  if (last && !reads_output) x_ = {};
  session::segment_scope const here(*session_, pass::backward, segment, stream_, micro_batch_);
  at_.assign(kind.tensors.size(), nullptr);
  for (auto const& op : kind.operations) {
    if (!std::ranges::any_of(op.writes, [&](tensor_id id) { return backward_reads(kind, id); })) continue;
    held_.push_back(session_->restore(key_of(segment, op), stream_));
    set_tensors(at_, kind, op, segment, held_.back().data());
  }
  for (tensor_id id = 0; id < at_.size(); ++id) {
    if (!backward_reads(kind, id)) at_[id] = nullptr;
  }
  void* out = nullptr;
  if (reads_output) {
    if (!last) held_.push_back(session_->restore(x_key(segment + 1), stream_));
    out = last ? x_.data() : held_.back().data();
  }
  void const* in = nullptr;
  if (backward_reads(kind, segment_input)) {
    held_.push_back(session_->restore(x_key(segment), stream_));
    in = held_.back().data();
  }
  wait_if_at_once(stream_);
  kind.backward({segment, stream_, in, out, at_});
  held_.clear();
  if (last) x_ = {};
  for (auto const& op : kind.operations) {
    if (!op.writes.empty()) session_->release(key_of(segment, op));
  }
  // The input may be the output that the segment before reads, and is what its own segment is rebuilt from until now.
  bool const read_before = segment > 0 && backward_reads(kind_of(segment - 1), segment_output);
  if (!last && reads_output) session_->release(x_key(segment + 1));
  if (!read_before) session_->release(x_key(segment));
}

void segments_core::end() {
  require(phase_ != phase::idle, "end_step", "without a step");
  bool const whole = kind_ == step_kind::evaluate || phase_ == phase::begun || backward_left_ == 0;
  require(whole && !(phase_ == phase::forward && forward_done_ < count()), "end_step",
          "in the midst of forward or backward; go on, or abandon the step");
  x_ = {};
  try {
    session_->end_step();
  } catch (...) {
    abandon();
    throw;
  }
  phase_ = phase::idle;
}

void segments_core::abandon() noexcept {
  held_.clear();
  written_.clear();
  x_ = {};
  if (phase_ == phase::idle) return;
  phase_ = phase::idle;
  session_->abandon_step();
}

// ---- the public face

segments::segments(std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : segments(config::from_env(), count, output_bytes, outputs) {}
segments::segments(config settings, std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : core_(std::make_unique<segments_core>(std::move(settings), nullptr, stream_ref(), count, output_bytes, outputs)) {
}
segments::segments(session& in, stream_ref stream, std::uint32_t count, std::size_t output_bytes, tensor_place outputs)
    : core_(std::make_unique<segments_core>(std::nullopt, &in, stream, count, output_bytes, outputs)) {
  if (!stream) throw invalid_argument("segments: the stream is null; pass the stream that functions enqueue on");
}
segments::~segments() = default;

void segments::then(std::uint32_t count) {
  segments_core::turn const mine(*core_);
  core_->add_kind(count);
}
tensor_id segments::tensor(label const& name, std::size_t bytes, tensor_place place) {
  segments_core::turn const mine(*core_);
  return core_->add_tensor(name, bytes, place);
}
void segments::forward_by(segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_forward(std::move(function));
}
void segments::operation(label const& name, std::vector<tensor_id> reads, std::vector<tensor_id> writes,
                         segment_function function) {
  segments_core::turn const mine(*core_);
  core_->add_operation(name, std::move(reads), writes, std::move(function));
}
void segments::backward_by(segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_backward(std::nullopt, std::move(function));
}
void segments::backward_by(std::vector<tensor_id> reads, segment_function function) {
  segments_core::turn const mine(*core_);
  core_->set_backward(std::move(reads), std::move(function));
}
void segments::resize(tensor_id of, std::size_t bytes) {
  segments_core::turn const mine(*core_);
  core_->resize(of, bytes);
}
void segments::resize_output(std::size_t bytes) {
  segments_core::turn const mine(*core_);
  core_->resize_output(bytes);
}
void segments::begin_step(step_kind kind) {
  segments_core::turn const mine(*core_);
  core_->begin(kind);
}
void* segments::input() {
  segments_core::turn const mine(*core_);
  return core_->input();
}
void* segments::forward() {
  segments_core::turn const mine(*core_);
  do core_->forward(core_->next_forward());
  while (core_->next_forward() < core_->count());
  return core_->output();
}
void segments::forward(std::uint32_t segment) {
  segments_core::turn const mine(*core_);
  core_->forward(segment);
}
void* segments::output() {
  segments_core::turn const mine(*core_);
  return core_->output();
}
void segments::backward() {
  segments_core::turn const mine(*core_);
  do {
    std::uint32_t const left = core_->backward_left();
    core_->backward((left > 0 ? left : core_->count()) - 1);
  } while (core_->backward_left() > 0);
}
void segments::backward(std::uint32_t segment) {
  segments_core::turn const mine(*core_);
  core_->backward(segment);
}
void segments::end_step() {
  segments_core::turn const mine(*core_);
  core_->end();
}
void segments::abandon_step() noexcept { core_->abandon_if_nobody_else_is_at_it(); }
std::uint32_t segments::count() const noexcept { return core_->count(); }
std::size_t segments::keep_all_bytes() const { return core_->keep_all_bytes(); }
session& segments::in_session() { return core_->in_session(); }

}  // namespace ferry
