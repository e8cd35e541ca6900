CREATE TABLE kappasharp_schema (
	version INTEGER NOT NULL
);
CREATE TABLE kappasharp_studies (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	uid VARCHAR(32) NOT NULL,
	name TEXT NOT NULL,
	created VARCHAR(40) NOT NULL,
	definition TEXT NOT NULL,
	UNIQUE (uid),
	UNIQUE (name)
);
CREATE TABLE kappasharp_events (
	study INTEGER NOT NULL,
	number INTEGER NOT NULL,
	kind VARCHAR(20) NOT NULL,
	voter TEXT NOT NULL,
	time VARCHAR(40) NOT NULL,
	body TEXT NOT NULL,
	digest VARCHAR(64) NOT NULL,
	PRIMARY KEY (study, number),
	FOREIGN KEY(study) REFERENCES kappasharp_studies (id) ON DELETE CASCADE
);
