// SPDX-License-Identifier: Apache-2.0
// Shared by all parts of the double: abort on wrong use, live objects, messages.
//
// Wrong use (a wrong slot, a dead object, a pointer to something else) ends the process with a message that begins with
// "double: ". What the real library refuses is refused here too: a message to the logger and the error recorder, and
// false or null to the caller.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "unserved.h"

// The version that the headers describe: 805 for 8.5, 1103 for 11.3. TensorRT-RTX 1.7 has generation 11's classes.
#ifdef TRT_MAJOR_RTX
#define DOUBLE_RTX 1
#define DOUBLE_API 1104
#else
#define DOUBLE_RTX 0
#define DOUBLE_API (NV_TENSORRT_MAJOR * 100 + NV_TENSORRT_MINOR)
#endif

// Whether a callback of the user derives from IVersionedInterface in this generation.
#define DOUBLE_VERSIONED_LOGGER (DOUBLE_API >= 1100)
#define DOUBLE_VERSIONED_CALLBACKS (DOUBLE_API >= 1000)

namespace doubles {

using nvinfer1::Dims;

#if DOUBLE_API >= 1000
using DimsArgument = Dims const&;
#else
using DimsArgument = Dims;
#endif

/// Ends the process with a message on stderr.
[[noreturn]] void wrong(char const* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// A text made as by printf.
std::string text(char const* format, ...) __attribute__((format(printf, 1, 2)));

// --- which objects live ---

/// Registers an object of a kind. The kind is a text with static lifetime.
void born(void const* object, char const* kind);
/// Unregisters an object; ends the process when it was not registered.
void died(void const* object, char const* kind);
/// Whether this object is alive.
bool lives(void const* object, char const* kind);
/// Ends the process when `object` is no living object of this kind; `where` is the method that was called.
void must_live(void const* object, char const* kind, char const* where);
/// Counts an object that the user owns: made, then deleted. Printed at exit when JETWATCH_DOUBLE_COUNTS is set.
void count_made(char const* kind);
void count_deleted(char const* kind);

/// Puts a guard in the place of a deleted object: its memory is kept for ever, so that a later use is found.
void bury(void* memory) noexcept;

// --- environment ---

/// The value of JETWATCH_DOUBLE_`name`, or `otherwise`.
std::string setting(char const* name, char const* otherwise = "");
/// The same as a number.
int number(char const* name, int otherwise);
/// Whether the list (commas) JETWATCH_DOUBLE_FAIL names this failure.
bool shall_fail(char const* what);

// --- messages ---

using Severity = nvinfer1::ILogger::Severity;
using nvinfer1::ErrorCode;

/// Where an object's messages go.
class Voice {
public:
    explicit Voice(nvinfer1::ILogger* logger);
    Voice(Voice const& other);
    Voice& operator=(Voice const&) = delete;
    ~Voice();

    void log(Severity severity, std::string const& message) const;
    /// An error to the logger and, when there is one, to the error recorder.
    void error(ErrorCode code, std::string const& message) const;
    void set_recorder(nvinfer1::IErrorRecorder* recorder);
    nvinfer1::ILogger* logger() const { return m_logger; }
    /// One message at each severity, when JETWATCH_DOUBLE_LOG_ALL is set.
    void log_all(char const* who) const;

private:
    nvinfer1::ILogger* m_logger;
    nvinfer1::IErrorRecorder* m_recorder = nullptr;
};

#if DOUBLE_VERSIONED_CALLBACKS
/// Aborts when a callback object does not identify itself as a C++ object of this kind.
void must_be(nvinfer1::IVersionedInterface const* callback, char const* kind, int32_t major);
#endif

// --- arguments ---

/// A tensor's or layer's name as handed over: not null, ended within 4096 bytes.
std::string name_argument(char const* name, char const* where);
/// Dimensions as handed over: between 0 and 8 of them, none below -1 or absurdly large.
Dims dims_argument(Dims const& dims, char const* where);
std::string shown(Dims const& dims);
std::vector<int64_t> sizes(Dims const& dims);
Dims to_dims(std::vector<int64_t> const& sizes);

/// The name of an enumeration's value; ends the process for a value that this version does not have.
template <class Enum>
char const* known(Enum value, char const* where, char const* enumeration) {
    char const* name = name_of(value);
    if (name == nullptr) {
        wrong("%s: this version has no %s %d", where, enumeration, static_cast<int>(value));
    }
    return name;
}

/// Bytes of one element of a type.
int64_t bytes_of(nvinfer1::DataType type);

// --- objects ---

// Slots of an object's own table behind the two destructors. Methods go through the inner object, so a call of one of
// these is a mistake.
#define DOUBLE_OWN_SLOT(number)                                                                     \
    virtual void own_slot_##number() noexcept {                                                     \
        ::doubles::wrong("slot %d of the own table of %s was called: methods go through the inner " \
                         "object at byte 8", number + 2, Inner::kKind);                            \
    }
#define DOUBLE_OWN_SLOTS_10(tens)                                                                              \
    DOUBLE_OWN_SLOT(tens##0) DOUBLE_OWN_SLOT(tens##1) DOUBLE_OWN_SLOT(tens##2) DOUBLE_OWN_SLOT(tens##3)        \
    DOUBLE_OWN_SLOT(tens##4) DOUBLE_OWN_SLOT(tens##5) DOUBLE_OWN_SLOT(tens##6) DOUBLE_OWN_SLOT(tens##7)        \
    DOUBLE_OWN_SLOT(tens##8) DOUBLE_OWN_SLOT(tens##9)

/// An object as the user holds it: its own table (destructors, then guards) and the pointer to the inner object.
///
/// `Interface` is the vendor's class, `Inner` the served methods. The user deletes it through its own destructor.
template <class Interface, class Inner>
class Object final : public Interface {
public:
    template <class... Arguments>
    explicit Object(Arguments&&... arguments)
        : m_inner(new Inner(static_cast<Arguments&&>(arguments)...)) {
        set_pointer(this);
        m_inner->m_outer = this;
        born(this, Inner::kKind);
        born(m_inner, Inner::kInnerKind);
        if (Inner::kIsUsers) {
            count_made(Inner::kKind);
        }
    }

    ~Object() noexcept override {
        must_live(this, Inner::kKind, "the destructor");
        m_inner->before_delete();
        died(this, Inner::kKind);
        died(m_inner, Inner::kInnerKind);
        void* memory = m_inner;
        m_inner->~Inner();
        bury(memory);
    }

    static void operator delete(void* memory) noexcept {
        if (Inner::kIsUsers) {
            count_deleted(Inner::kKind);
        }
        bury(memory);
    }

    Inner& inner() { return *m_inner; }

    DOUBLE_OWN_SLOTS_10()
    DOUBLE_OWN_SLOTS_10(1)
    DOUBLE_OWN_SLOTS_10(2)
    DOUBLE_OWN_SLOTS_10(3)
    DOUBLE_OWN_SLOTS_10(4)
    DOUBLE_OWN_SLOTS_10(5)
    DOUBLE_OWN_SLOTS_10(6)

private:
    // The vendor names the pointer mImpl, in layers mLayer.
    template <class Self>
    auto set_pointer(Self* self) -> decltype(void(self->mImpl)) {
        self->mImpl = m_inner;
    }
    template <class Self>
    auto set_pointer(Self* self) -> decltype(void(self->mLayer)) {
        self->mLayer = m_inner;
    }

    Inner* m_inner;
};

/// The served object behind a reference that the user handed over; ends the process when it is none.
template <class Interface, class Inner>
Inner& behind(Interface const& object, char const* where) {
    must_live(&object, Inner::kKind, where);
    return const_cast<Object<Interface, Inner>&>(static_cast<Object<Interface, Inner> const&>(object)).inner();
}

/// Common to all inner objects. `Table` is the class with the vendor's slots.
template <class Interface, class Table>
class Inner : public Table {
public:
    /// Whether the user deletes such objects and the double counts them.
    static constexpr bool kIsUsers = true;

    Interface* outer() const { return m_outer; }
    /// What must hold before the user may delete the object; inner classes hide it with their own.
    void before_delete() {}

    Interface* m_outer = nullptr;
};

} // namespace doubles

/// First line of each served method: the object must be alive.
#define DOUBLE_ALIVE(method) ::doubles::must_live(this, kInnerKind, method)
