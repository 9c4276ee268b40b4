package body

// Key names a top-level key whose place Parse records.
type Key uint8

// The recorded keys. A new one needs a line here, in keyOf and in String.
const (
	KeyModel Key = iota
	KeyStream
	KeyN
	KeyRID
	KeyMessages
	KeyPrompt
	KeyText
	KeyInputIDs
	KeyMaxCompletionTokens
	KeySystem
	KeyInput
	KeyQuery
	KeyCacheSalt
	KeyExtraKey
	KeyLoRAPath
	KeyLoRAID
	KeyMaxTokens
	KeyDocuments

	keyCount
)

// maxKeyLen is the length of the longest recorded key.
const maxKeyLen = len("max_completion_tokens")

// String returns the key as it stands in a body.
func (k Key) String() string {
	switch k {
	case KeyModel:
		return "model"
	case KeyStream:
		return "stream"
	case KeyN:
		return "n"
	case KeyRID:
		return "rid"
	case KeyMessages:
		return "messages"
	case KeyPrompt:
		return "prompt"
	case KeyText:
		return "text"
	case KeyInputIDs:
		return "input_ids"
	case KeyMaxCompletionTokens:
		return "max_completion_tokens"
	case KeySystem:
		return "system"
	case KeyInput:
		return "input"
	case KeyQuery:
		return "query"
	case KeyCacheSalt:
		return "cache_salt"
	case KeyExtraKey:
		return "extra_key"
	case KeyLoRAPath:
		return "lora_path"
	case KeyLoRAID:
		return "lora_id"
	case KeyMaxTokens:
		return "max_tokens"
	case KeyDocuments:
		return "documents"
	default:
		return "unrecorded"
	}
}

// sentOnce tells whether only the last occurrence of k may reach a worker.
func (k Key) sentOnce() bool { return k == KeyModel || k == KeyStream || k == KeyN }

// keyOf returns the recorded key called name, or keyCount.
func keyOf(name []byte) Key {
	switch string(name) {
	case "model":
		return KeyModel
	case "stream":
		return KeyStream
	case "n":
		return KeyN
	case "rid":
		return KeyRID
	case "messages":
		return KeyMessages
	case "prompt":
		return KeyPrompt
	case "text":
		return KeyText
	case "input_ids":
		return KeyInputIDs
	case "max_completion_tokens":
		return KeyMaxCompletionTokens
	case "system":
		return KeySystem
	case "input":
		return KeyInput
	case "query":
		return KeyQuery
	case "cache_salt":
		return KeyCacheSalt
	case "extra_key":
		return KeyExtraKey
	case "lora_path":
		return KeyLoRAPath
	case "lora_id":
		return KeyLoRAID
	case "max_tokens":
		return KeyMaxTokens
	case "documents":
		return KeyDocuments
	default:
		return keyCount
	}
}

// Type is the JSON type of a value. The zero Type means that the key is absent.
type Type uint8

// The types of a value.
const (
	TypeAbsent Type = iota
	TypeNull
	TypeBool
	TypeNumber
	TypeString
	TypeArray
	TypeObject
)

// String returns the type with its article, as messages need it.
func (t Type) String() string {
	switch t {
	case TypeAbsent:
		return "absent"
	case TypeNull:
		return "null"
	case TypeBool:
		return "a boolean"
	case TypeNumber:
		return "a number"
	case TypeString:
		return "a string"
	case TypeArray:
		return "an array"
	case TypeObject:
		return "an object"
	default:
		return "unknown"
	}
}

// typeOf returns the type of the valid value that begins with c.
func typeOf(c byte) Type {
	switch c {
	case '"':
		return TypeString
	case '{':
		return TypeObject
	case '[':
		return TypeArray
	case 't', 'f':
		return TypeBool
	case 'n':
		return TypeNull
	default:
		return TypeNumber
	}
}

// Field says where the value of a recorded key stands and what it is. For a
// repeated key it describes the last occurrence.
type Field struct {
	Type       Type
	Repeated   bool // the key occurs more than once
	Start, End int  // the value is Raw()[Start:End]
}

// Present tells whether the key occurs, null included.
func (f Field) Present() bool { return f.Type != TypeAbsent }

// Given tells whether the key occurs with a value other than null.
func (f Field) Given() bool { return f.Type > TypeNull }
