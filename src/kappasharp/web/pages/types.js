/**
 * What the server sends, as types for the checker. Nothing here runs.
 *
 * @typedef {string | number | boolean | null} Value
 * @typedef {Record<string, Value>} Design
 * @typedef {"pair" | "choice" | "order" | "slider" | "rating"} Kind
 * @typedef {string | number | (number | number[])[]} Answer
 * @typedef {"image" | "html" | "audio" | "video" | "none" | "failed" | "pending"} CardKind
 *
 * @typedef {object} Card
 * @property {CardKind} kind
 * @property {string} sentence
 * @property {string} key
 * @property {string} description what it shows, where its renderer says so
 *
 * @typedef {object} Option
 * @property {number | null} option null for an end of a line
 * @property {Design} params
 * @property {Card} card
 * @property {Told} [outcomes] of a study with outcomes
 *
 * @typedef {object} Told how the outcomes of a design stand
 * @property {"known" | "computing" | "failed" | "none"} state
 * @property {{name: string, value: number, words: string}[]} values
 * @property {Said} sentence
 *
 * @typedef {Record<string, [number, number]>} Ranges
 *
 * @typedef {object} OutcomeRow
 * @property {string} name
 * @property {"less" | "more" | null} better
 * @property {number} [at_least]
 * @property {number} [at_most]
 *
 * @typedef {object} OutcomeTable
 * @property {OutcomeRow[]} table
 * @property {Said | null} missing
 *
 * @typedef {object} TradeOffs
 * @property {string[]} names
 * @property {string[]} drawn
 * @property {Record<string, "less" | "more" | null>} better
 * @property {Chart[]} taste
 * @property {Chart[]} fronts
 * @property {Said[]} trades
 * @property {{option: number | null, outcomes: Record<string, string>, source: Said, front: boolean, best: boolean}[]} rows
 * @property {Said[]} notes
 *
 * @typedef {object} Pair
 * @property {number} number
 * @property {string} voter
 * @property {string} origin
 * @property {Kind} kind
 * @property {string} form
 * @property {Option[]} designs
 * @property {{stops: Stop[], finest: number}} [line]
 * @property {Ranges} [ranges] of a study with outcomes
 * @property {number} answers
 * @property {number | null} rests_on how many answers the model had when it chose this; null where it did not
 * @property {number} since the event of the study that all this is true after
 * @property {boolean} can_undo
 * @property {boolean} undoes_answer
 *
 * @typedef {object} Stop
 * @property {number} place
 * @property {Design} params
 * @property {Card | null} card
 * @property {Told} [outcomes]
 *
 * @typedef {object} Key
 * @property {string[]} keys as the browser names them, letters in lower case
 * @property {string} label
 * @property {string} words
 * @property {(key: string, fine: boolean) => void} action
 * @property {boolean} [repeats]
 *
 * @typedef {object} Board how one question is asked
 * @property {string} title
 * @property {(string | HTMLElement)[]} hint
 * @property {HTMLElement} element
 * @property {HTMLElement[]} choices the buttons that answer
 * @property {HTMLElement[]} extras
 * @property {Key[]} keys
 * @property {HTMLElement} [home] what has the focus while nothing else has
 * @property {() => void} [leave]
 *
 * @typedef {object} Parameter
 * @property {string} name
 * @property {"float" | "int" | "categorical" | "fixed"} type
 * @property {number} [low]
 * @property {number} [high]
 * @property {boolean} [log]
 * @property {number | null} [step]
 * @property {Value[]} [choices]
 * @property {Value} [value]
 *
 * @typedef {object} Study
 * @property {string} id
 * @property {string} name
 * @property {string} created
 * @property {string} method
 * @property {string} preset
 * @property {number} seed
 * @property {number} first_pairs
 * @property {string} question
 * @property {Kind[]} kinds
 * @property {Parameter[]} parameters
 * @property {boolean} has_pictures
 * @property {string | null} missing_renderer what to do where its pictures cannot be drawn here
 * @property {OutcomeTable | null} outcomes
 * @property {number} voters who have answered, or were asked by name
 * @property {Role} role what who looks at it may do
 * @property {string | null} voter the name under which they came by a link
 *
 * @typedef {"viewer" | "voter" | "owner"} Role each may do all that those before may
 *
 * @typedef {object} Invite
 * @property {string} id
 * @property {Role} role
 * @property {string} created
 * @property {string | null} revoked
 * @property {boolean} own whether who looks came by it
 * @property {{id: string, name: string | null, since: string}[]} people
 *
 * @typedef {object} Invites
 * @property {Invite[]} invites
 * @property {{address: string, to_others: boolean, encrypted: boolean}} reach
 * @property {string} [made] the one that was just made
 * @property {string} [link] the same, with its secret
 * @property {string} [picture] the same as a QR code
 *
 * @typedef {object} Listing
 * @property {boolean} has_key whether all studies are theirs, by the key of the server
 * @property {{id: string, name: string, created: string}[]} studies
 * @property {Study | null} study
 * @property {string | null} unknown the name in the address, where no study has it
 * @property {string[]} renderers
 * @property {string[]} persons
 * @property {string[]} methods
 * @property {Kind[]} kinds
 * @property {string} storage
 *
 * @typedef {object} Counted a study in the list
 * @property {string} id
 * @property {string} name
 * @property {string} created
 * @property {number | null} answers
 * @property {number | null} voters
 * @property {string | null} last_answer
 * @property {string | null} trouble
 *
 * @typedef {{low: number | null, high: number | null, choices: Value[] | null, words: string}} OpenValues
 *
 * @typedef {object} OpenParameter
 * @property {string} name
 * @property {"number" | "choice"} kind
 * @property {number | null} step
 * @property {OpenValues} open
 * @property {OpenValues} ever
 * @property {boolean} locked
 * @property {Value} best
 * @property {ParameterEdge | null} edge
 *
 * @typedef {{name: string, side: "low" | "high", value: number, further: number, end: number}} ParameterEdge
 *
 * @typedef {{option: number, voter: string, text: string}} NoteRow
 *
 * @typedef {import("./texts.js").Said} Said
 *
 * @typedef {object} Advice
 * @property {"go_on" | "could_stop" | "not_enough_signal" | "link_groups"} what
 * @property {Said} sentence
 * @property {[number, number] | null} link
 *
 * @typedef {object} Best
 * @property {Design} params
 * @property {number} option
 * @property {number} beats_random
 * @property {number} room_left
 * @property {Advice} advice
 * @property {number} n_comparisons
 * @property {string} status
 * @property {ParameterEdge[]} edges where it sits at an end, or close to it
 * @property {Said | null} weighed what became of the voters' weights, where some are set
 *
 * @typedef {object} Meeting what one answer says of the best design
 * @property {number} number
 * @property {string} voter
 * @property {Kind} kind
 * @property {number[]} beat
 * @property {number[]} lost_to
 * @property {number[]} equalled
 *
 * @typedef {{sentences: Said[], meetings: Meeting[], course: Chart | null}} Why
 *
 * @typedef {object} VoterCount
 * @property {string} name
 * @property {number} answers
 * @property {number} skips
 * @property {number | null} seconds
 * @property {number} decided
 * @property {number} shared
 * @property {boolean} program
 *
 * @typedef {{params: Design, option: number, beats_random: number}} Liked
 *
 * @typedef {object} VoterTaste
 * @property {string} voter
 * @property {number} answers
 * @property {Liked} best
 * @property {number} likes_best
 * @property {number} likes_fairest
 * @property {number | null} consistency
 * @property {boolean} careless
 * @property {number} weight
 * @property {number | null} group
 * @property {boolean} predicted
 * @property {boolean} program
 *
 * @typedef {object} Agreement
 * @property {number} shared
 * @property {Best} best
 * @property {Best} fairest
 * @property {VoterTaste[]} voters
 * @property {number[][]} alike
 * @property {{voters: string[], alike: number | null, best: Liked}[]} groups
 * @property {{parameter: string, share: number, likes: Value[], sure: number}[]} splits
 * @property {string} status
 * @property {Said[]} sentences
 * @property {Chart} map
 *
 * @typedef {object} Team
 * @property {number} answers that it rests on
 * @property {Record<string, VoterCount>} counts
 * @property {Couple[]} couples
 * @property {Said | null} refused why the study's method cannot tell
 * @property {Agreement | null} found null before the first answer too
 *
 * @typedef {object} Couple
 * @property {string} first
 * @property {string} second
 * @property {number} met
 * @property {number} agreed
 *
 * @typedef {object} Standing
 * @property {number} answers that it rests on
 * @property {Best | null} best
 * @property {number[]} surprises
 *
 * @typedef {object} Mark
 * @property {"line" | "path" | "rect" | "circle" | "text"} tag
 * @property {string} kind
 * @property {Record<string, string | number>} at
 * @property {Said} words
 * @property {Said} title
 *
 * @typedef {object} Chart
 * @property {number} width
 * @property {number} height
 * @property {Said} label
 * @property {Mark[]} marks
 * @property {{words: Said, kind: string}[]} caption
 * @property {{x: number, ys: number[], words: Said}[]} readings
 *
 * @typedef {object} Row
 * @property {number} event
 * @property {number} number of the answer, counted from 1
 * @property {string} voter
 * @property {string} time
 * @property {number[]} options
 * @property {Kind} kind
 * @property {string} form
 * @property {Answer} answer
 * @property {number | null} pair
 * @property {number | null} seconds
 * @property {boolean} amended
 * @property {boolean} program whether a program answered
 * @property {number[]} contradicts
 * @property {string} origin
 *
 * @typedef {object} Past
 * @property {number} since the event of the study that this is true after
 * @property {Row[]} rows
 * @property {Row[]} removed
 * @property {Record<string, Design>} options
 * @property {Record<string, Record<string, string>>} outcomes as far as they are known, of a study with some
 * @property {number[]} cycle
 * @property {number} queue
 *
 * @typedef {object} Moment
 * @property {number} answers
 * @property {number | null} condition
 * @property {number | null} corrected
 * @property {number | null} strength
 * @property {number} rank
 * @property {number} groups
 * @property {string} status
 *
 * @typedef {object} Noted
 * @property {number} answers
 * @property {number} step
 * @property {boolean} active
 * @property {number} mean_decisiveness
 * @property {number} strength
 *
 * @typedef {{option: number, group: number, plain: number, corrected: number}} Node
 * @typedef {{event: number, winner: number, loser: number, tie: boolean}} Edge
 *
 * @typedef {object} ModelView
 * @property {number} since
 * @property {Node[]} nodes
 * @property {Edge[]} edges
 * @property {number} best
 * @property {{plain: Chart, corrected: Chart}} graphs
 * @property {Record<string, any>} diagnosis
 * @property {Said[]} sentences in plain words
 * @property {Said[]} technical
 * @property {Moment[]} moments
 * @property {Noted[]} noted
 * @property {Chart | null} conditions
 * @property {boolean} has_correction
 *
 * @typedef {object} RehearsalRow
 * @property {number} answers
 * @property {number} preferred
 * @property {number} truly_preferred
 * @property {number} room_left
 * @property {number} true_room_left
 *
 * @typedef {object} Rehearsal
 * @property {RehearsalRow[]} rows
 * @property {Chart | null} chart
 *
 * @typedef {object} Page
 * @property {Listing} listing
 * @property {Study | null} study
 * @property {string} voter
 * @property {HTMLElement} status where it says things; a view may give it a place of its own
 * @property {(sentence: string, kind?: "good" | "bad") => void} say
 * @property {(error: unknown, words?: string) => void} fail say what went wrong, after some words
 * @property {(view: string) => void} go
 * @property {(voters: number) => void} met so many voters there are by now
 * @property {(id: string) => Promise<void>} open
 * @property {() => void} leave after a study was deleted
 * @property {(role: Role) => boolean} may whether who looks may do what that role may
 *
 * @typedef {object} News what a page hears of its study
 * @property {number} since the event of the study that this is true after
 * @property {number} answers
 * @property {number} voters
 * @property {string} name
 * @property {boolean} failed whether newer figures could not be computed
 * @property {{since: number, answers: number, best: {option: number, beats_random: number, room_left: number} | null, surprises: number[]} | null} standing
 *
 * @typedef {object} View
 * @property {(event: KeyboardEvent) => boolean} [key]
 * @property {(now: News) => void} [news] somebody did something to the study; what a person is doing must not be disturbed
 * @property {() => void} [leave]
 */
export {};
