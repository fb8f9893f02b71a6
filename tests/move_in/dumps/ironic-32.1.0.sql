BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('3ef27505c9fb');
CREATE TABLE allocations (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(255), 
	node_id INTEGER, 
	state VARCHAR(15) NOT NULL, 
	owner VARCHAR(255), 
	last_error TEXT, 
	resource_class VARCHAR(80), 
	traits TEXT, 
	candidate_nodes TEXT, 
	extra TEXT, 
	conductor_affinity INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_allocations0name UNIQUE (name), 
	CONSTRAINT uniq_allocations0uuid UNIQUE (uuid)
);
INSERT INTO "allocations" VALUES(1,'00000601-0000-4000-8000-000000000000','mail',6,'active',NULL,NULL,'metal','["CUSTOM_UNIT_6"]','["00000006-0000-4000-8000-000000000000"]','{"a": "b"}',1,'1.3','2026-11-30 15:40:16.152964','2026-11-30 15:40:16.196148');
INSERT INTO "allocations" VALUES(2,'00000603-0000-4000-8000-000000000000','too-large',NULL,'error',NULL,'Failed to process allocation 00000603-0000-4000-8000-000000000000: no available nodes match the resource class huge.','huge','[]','[]','{}',1,'1.3','2026-11-30 15:40:16.306263','2026-11-30 15:40:16.319031');
INSERT INTO "allocations" VALUES(3,'00000604-0000-4000-8000-000000000000','searching',NULL,'allocating',NULL,NULL,'huge','[]','[]','{}',1,'1.3','2026-11-30 15:40:16.358441','2026-11-30 15:40:16.382868');
INSERT INTO "allocations" VALUES(4,'00000602-0000-4000-8000-000000000000','backfilled',4,'active',NULL,NULL,'metal','[]','[]','{}',1,'1.3','2026-11-30 15:40:18.727434','2026-11-30 15:40:18.748083');
CREATE TABLE bios_settings (
	node_id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	value TEXT, 
	attribute_type VARCHAR(255), 
	allowable_values TEXT, 
	lower_bound INTEGER, 
	max_length INTEGER, 
	min_length INTEGER, 
	read_only BOOLEAN, 
	reset_required BOOLEAN, 
	"unique" BOOLEAN, 
	upper_bound INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "bios_settings" VALUES(2,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.2','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE chassis (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	extra TEXT, 
	description VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_chassis0uuid UNIQUE (uuid)
);
INSERT INTO "chassis" VALUES(1,'00000500-0000-4000-8000-000000000000','{}','Rack 7','1.4','2026-11-30 15:40:09.734421',NULL);
CREATE TABLE conductor_hardware_interfaces (
	id INTEGER NOT NULL, 
	conductor_id INTEGER NOT NULL, 
	hardware_type VARCHAR(255) NOT NULL, 
	interface_type VARCHAR(16) NOT NULL, 
	interface_name VARCHAR(255) NOT NULL, 
	"default" BOOLEAN NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductorhardwareinterfaces0 UNIQUE (conductor_id, hardware_type, interface_type, interface_name), 
	FOREIGN KEY(conductor_id) REFERENCES conductors (id)
);
CREATE TABLE conductors (
	id INTEGER NOT NULL, 
	hostname VARCHAR(255) NOT NULL, 
	drivers TEXT, 
	online BOOLEAN, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductors0hostname UNIQUE (hostname)
);
INSERT INTO "conductors" VALUES(1,'c1','["fake-hardware", "ipmi", "redfish"]',0,'','1.6','2026-11-30 15:40:09.509770','2026-11-30 15:40:19.291651');
CREATE TABLE deploy_template_steps (
	id INTEGER NOT NULL, 
	deploy_template_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(deploy_template_id) REFERENCES deploy_templates (id)
);
INSERT INTO "deploy_template_steps" VALUES(1,1,'deploy','deploy','{"settings": {"admin_password": "pLaNtEd-template-word"}}',80,NULL,'2026-11-30 15:40:09.786741',NULL);
INSERT INTO "deploy_template_steps" VALUES(2,1,'bios','apply_configuration','{"admin_password": "pLaNtEd-template-word"}',150,NULL,'2026-11-30 15:40:09.786752',NULL);
CREATE TABLE deploy_templates (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_deploytemplates0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_deploytemplates0name UNIQUE (name)
);
INSERT INTO "deploy_templates" VALUES(1,'00000701-0000-4000-8000-000000000000','CUSTOM_RACK_7','{"t": 1}','1.2','2026-11-30 15:40:09.775984',NULL);
CREATE TABLE firmware_information (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	component VARCHAR(255) NOT NULL, 
	initial_version VARCHAR(255) NOT NULL, 
	current_version VARCHAR(255), 
	last_version_flashed VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodecomponent0node_id0component UNIQUE (node_id, component), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "firmware_information" VALUES(1,2,'bios','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(2,2,'bmc','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(3,3,'bios','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(4,3,'bmc','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(5,4,'bios','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(6,4,'bmc','1.0','1.1','1.1','1.1','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE inspection_rules (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	priority INTEGER NOT NULL, 
	description VARCHAR(255), 
	scope VARCHAR(255), 
	sensitive BOOLEAN, 
	phase VARCHAR(16), 
	conditions TEXT, 
	actions TEXT NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_inspection_rules0uuid UNIQUE (uuid)
);
INSERT INTO "inspection_rules" VALUES(1,'00000721-0000-4000-8000-000000000000',10,'Dell',NULL,1,'main','[{"op": "matches", "args": {"value": "{inventory[system_vendor][manufacturer]}", "regex": "Del"}}]','[{"op": "set-attribute", "args": {"path": "/driver_info/redfish_password", "value": "pLaNtEd-rule-word"}}]','1.1','2026-11-30 15:40:09.867717',NULL);
INSERT INTO "inspection_rules" VALUES(2,'00000722-0000-4000-8000-000000000000',0,NULL,NULL,0,'main','[]','[{"op": "set-attribute", "args": {"path": "/properties/vendor", "value": "x"}}]','1.1','2026-11-30 15:40:09.903398',NULL);
CREATE TABLE node_history (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	conductor VARCHAR(255), 
	event_type VARCHAR(255), 
	severity VARCHAR(255), 
	event TEXT, 
	user VARCHAR(64), 
	node_id INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_history0uuid UNIQUE (uuid), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_history" VALUES(1,'252fe789-a658-4ed3-8dcc-b67c75741512','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,3,'1.1','2026-11-30 15:40:14.178834',NULL);
INSERT INTO "node_history" VALUES(2,'9816a566-5217-4432-a1e0-b0037451504c','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,3,'1.1','2026-11-30 15:40:14.218655',NULL);
INSERT INTO "node_history" VALUES(3,'beae4d98-5f1f-4995-bebe-e87f98414015','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,4,'1.1','2026-11-30 15:40:14.272367',NULL);
INSERT INTO "node_history" VALUES(4,'4997f2aa-eabb-494e-9471-cdda193200f2','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,4,'1.1','2026-11-30 15:40:14.348804',NULL);
INSERT INTO "node_history" VALUES(5,'ebb87f92-2f69-41f5-9632-aa030637c634','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,5,'1.1','2026-11-30 15:40:14.403794',NULL);
INSERT INTO "node_history" VALUES(6,'d6808587-5297-4e36-89de-6cfea89efe9a','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,6,'1.1','2026-11-30 15:40:14.484498',NULL);
INSERT INTO "node_history" VALUES(7,'3258b123-726a-408a-9345-1932ce955e76','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,6,'1.1','2026-11-30 15:40:14.521520',NULL);
INSERT INTO "node_history" VALUES(8,'b03a2056-1b4c-48c9-b9ad-969c958ea224','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,8,'1.1','2026-11-30 15:40:14.626495',NULL);
INSERT INTO "node_history" VALUES(9,'03cd29a7-e77b-468f-abe1-8e4421c23834','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,11,'1.1','2026-11-30 15:40:14.713035',NULL);
INSERT INTO "node_history" VALUES(10,'6b0ea53a-cbe2-4f0a-86c1-6e5601b4b110','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,5,'1.1','2026-11-30 15:40:14.767913',NULL);
INSERT INTO "node_history" VALUES(11,'c4bcf0ec-0cc2-4d0a-8146-8e0959f47951','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,12,'1.1','2026-11-30 15:40:14.880586',NULL);
INSERT INTO "node_history" VALUES(12,'5848941a-4760-4883-b86c-f601e82a2a0a','c1','automated_cleaning_start','INFO','Starting automated cleaning with steps=[{''step'': ''log_passthrough'', ''priority'': 1, ''abortable'': False, ''argsinfo'': None, ''interface'': ''vendor'', ''requires_ramdisk'': True}]',NULL,13,'1.1','2026-11-30 15:40:14.984738',NULL);
INSERT INTO "node_history" VALUES(13,'93a6d876-28b3-48bd-bfda-9ac3b352684d','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,13,'1.1','2026-11-30 15:40:15.048486',NULL);
INSERT INTO "node_history" VALUES(14,'0b4f9598-f9b2-43bb-893b-6eafba688e2e','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,8,'1.1','2026-11-30 15:40:15.070942',NULL);
INSERT INTO "node_history" VALUES(15,'f4deb038-1e32-4872-b949-166bac4e8dcd','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,12,'1.1','2026-11-30 15:40:15.137017',NULL);
INSERT INTO "node_history" VALUES(16,'d701872e-14e4-404e-90e0-02386ff08210','c1','automated_cleaning_end','INFO','Automated Cleaning completed successfully with steps=[]',NULL,11,'1.1','2026-11-30 15:40:15.760158',NULL);
INSERT INTO "node_history" VALUES(17,'f34cd24d-422d-4d63-88f8-6ec8674a1b57','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,6,'1.1','2026-11-30 15:40:16.658881',NULL);
INSERT INTO "node_history" VALUES(18,'47bb389b-e721-4c6c-86d9-05288a96c3fc','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,6,'1.1','2026-11-30 15:40:16.672725',NULL);
INSERT INTO "node_history" VALUES(19,'7b12eb76-ca09-40ee-b501-ca256f7dee0c','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,4,'1.1','2026-11-30 15:40:16.850943',NULL);
INSERT INTO "node_history" VALUES(20,'a85732b1-4237-4b13-ab54-98e5df06fb9b','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,4,'1.1','2026-11-30 15:40:16.875436',NULL);
INSERT INTO "node_history" VALUES(21,'c2ebf417-59e0-4189-9e4e-9139ef51af13','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,5,'1.1','2026-11-30 15:40:17.019104',NULL);
INSERT INTO "node_history" VALUES(22,'8fdb5343-1100-4bf9-96a6-c8c37682545d','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,5,'1.1','2026-11-30 15:40:17.050623',NULL);
INSERT INTO "node_history" VALUES(23,'f5215d8c-8df9-4a56-a0f8-f98c127015ad','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,11,'1.1','2026-11-30 15:40:17.139603',NULL);
INSERT INTO "node_history" VALUES(24,'b8699545-099a-4514-82eb-7c71ef4ac369','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,11,'1.1','2026-11-30 15:40:17.159770',NULL);
INSERT INTO "node_history" VALUES(25,'3bad57ec-be2d-4341-a000-314653378151','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,12,'1.1','2026-11-30 15:40:17.297887',NULL);
INSERT INTO "node_history" VALUES(26,'6afa9f45-7b1e-445e-bac5-c90c6ddb6e76','c1','deployment_start','INFO','Starting deployment with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,13,'1.1','2026-11-30 15:40:17.423586',NULL);
INSERT INTO "node_history" VALUES(27,'46581997-50cd-4747-8484-548960fb51fb','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,13,'1.1','2026-11-30 15:40:17.444178',NULL);
INSERT INTO "node_history" VALUES(28,'1d211ea3-9b63-40d3-8c03-039a1f4ae0b5','c1','deployment_end','INFO','Deployment completed successfully with steps=[{''step'': ''deploy'', ''priority'': 100, ''argsinfo'': None, ''interface'': ''deploy''}]',NULL,12,'1.1','2026-11-30 15:40:17.493728',NULL);
INSERT INTO "node_history" VALUES(29,'00100100-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-01: größer','operator',1,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(30,'00100101-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-01: größer','operator',1,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(31,'00100102-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-01: größer','operator',1,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(32,'00100103-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-01: größer','operator',1,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(33,'00100200-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-02: größer','operator',2,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(34,'00100201-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-02: größer','operator',2,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(35,'00100202-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-02: größer','operator',2,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(36,'00100203-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-02: größer','operator',2,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(37,'00100300-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-03: größer','operator',3,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(38,'00100301-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-03: größer','operator',3,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(39,'00100302-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-03: größer','operator',3,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(40,'00100303-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-03: größer','operator',3,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(41,'00100400-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-04: größer','operator',4,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(42,'00100401-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-04: größer','operator',4,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(43,'00100402-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-04: größer','operator',4,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(44,'00100403-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-04: größer','operator',4,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(45,'00100500-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-05: größer','operator',5,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(46,'00100501-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-05: größer','operator',5,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(47,'00100502-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-05: größer','operator',5,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(48,'00100503-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-05: größer','operator',5,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(49,'00100600-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-06: größer','operator',6,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(50,'00100601-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-06: größer','operator',6,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(51,'00100602-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-06: größer','operator',6,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(52,'00100603-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-06: größer','operator',6,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(53,'00100700-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-07: größer','operator',7,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(54,'00100701-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-07: größer','operator',7,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(55,'00100702-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-07: größer','operator',7,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(56,'00100703-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-07: größer','operator',7,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(57,'00100800-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-08: größer','operator',8,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(58,'00100801-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-08: größer','operator',8,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(59,'00100802-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-08: größer','operator',8,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(60,'00100803-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-08: größer','operator',8,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(61,'00100900-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-09: größer','operator',9,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(62,'00100901-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-09: größer','operator',9,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(63,'00100902-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-09: größer','operator',9,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(64,'00100903-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-09: größer','operator',9,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(65,'00101000-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-10: größer','operator',10,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(66,'00101001-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-10: größer','operator',10,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(67,'00101002-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-10: größer','operator',10,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(68,'00101003-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-10: größer','operator',10,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(69,'00101100-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-11: größer','operator',11,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(70,'00101101-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-11: größer','operator',11,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(71,'00101102-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-11: größer','operator',11,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(72,'00101103-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-11: größer','operator',11,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(73,'00101200-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-12: größer','operator',12,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(74,'00101201-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-12: größer','operator',12,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(75,'00101202-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-12: größer','operator',12,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(76,'00101203-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-12: größer','operator',12,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(77,'00101300-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-13: größer','operator',13,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(78,'00101301-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-13: größer','operator',13,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(79,'00101302-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-13: größer','operator',13,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(80,'00101303-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-13: größer','operator',13,'1.1','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(81,'00101400-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-14: größer','operator',14,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(82,'00101401-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-14: größer','operator',14,'1.1','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(83,'00101402-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-14: größer','operator',14,'1.1','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(84,'00101403-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-14: größer','operator',14,'1.1','2026-03-01 12:03:00.000000',NULL);
CREATE TABLE node_inventory (
	id INTEGER NOT NULL, 
	inventory_data TEXT, 
	plugin_data TEXT, 
	node_id INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_inventory" VALUES(1,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:02:00"}, {"name": "eth1", "mac_address": "52:54:00:07:02:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00002"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',2,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_inventory" VALUES(2,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:03:00"}, {"name": "eth1", "mac_address": "52:54:00:07:03:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00003"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',3,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_inventory" VALUES(3,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:04:00"}, {"name": "eth1", "mac_address": "52:54:00:07:04:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00004"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',4,'1.1','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE node_tags (
	node_id INTEGER NOT NULL, 
	tag VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, tag), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_tags" VALUES(1,'old',NULL,'2026-03-01 12:00:00.000000',NULL);
CREATE TABLE node_traits (
	node_id INTEGER NOT NULL, 
	trait VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, trait), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:10.066438',NULL);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_RB','1.1','2026-11-30 15:40:10.066449',NULL);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_UNIT_1','1.1','2026-11-30 15:40:10.066452',NULL);
INSERT INTO "node_traits" VALUES(1,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:10.066454',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:10.389876',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_RB','1.1','2026-11-30 15:40:10.389889',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_UNIT_2','1.1','2026-11-30 15:40:10.389892',NULL);
INSERT INTO "node_traits" VALUES(2,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:10.389894',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:10.537896',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_RB','1.1','2026-11-30 15:40:10.537908',NULL);
INSERT INTO "node_traits" VALUES(3,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:10.537912',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_UNIT_3','1.1','2026-11-30 15:40:10.537915',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:10.793591',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_RB','1.1','2026-11-30 15:40:10.793603',NULL);
INSERT INTO "node_traits" VALUES(4,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:10.793606',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_UNIT_4','1.1','2026-11-30 15:40:10.793609',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.106354',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_UNIT_5','1.1','2026-11-30 15:40:11.106364',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_RB','1.1','2026-11-30 15:40:11.106367',NULL);
INSERT INTO "node_traits" VALUES(5,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.106369',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.249558',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_RB','1.1','2026-11-30 15:40:11.249568',NULL);
INSERT INTO "node_traits" VALUES(6,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.249571',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_UNIT_6','1.1','2026-11-30 15:40:11.249573',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.423893',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_RB','1.1','2026-11-30 15:40:11.423901',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_UNIT_7','1.1','2026-11-30 15:40:11.423904',NULL);
INSERT INTO "node_traits" VALUES(7,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.423906',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.583185',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_RB','1.1','2026-11-30 15:40:11.583195',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_UNIT_8','1.1','2026-11-30 15:40:11.583198',NULL);
INSERT INTO "node_traits" VALUES(8,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.583200',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.802763',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_RB','1.1','2026-11-30 15:40:11.802773',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_UNIT_9','1.1','2026-11-30 15:40:11.802776',NULL);
INSERT INTO "node_traits" VALUES(9,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.802778',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:11.968140',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_RB','1.1','2026-11-30 15:40:11.968150',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_UNIT_10','1.1','2026-11-30 15:40:11.968153',NULL);
INSERT INTO "node_traits" VALUES(10,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:11.968156',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:12.126477',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_RB','1.1','2026-11-30 15:40:12.126488',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_UNIT_11','1.1','2026-11-30 15:40:12.126491',NULL);
INSERT INTO "node_traits" VALUES(11,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:12.126493',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:12.274916',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_RB','1.1','2026-11-30 15:40:12.274926',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_UNIT_12','1.1','2026-11-30 15:40:12.274929',NULL);
INSERT INTO "node_traits" VALUES(12,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:12.274931',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:12.420729',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_RB','1.1','2026-11-30 15:40:12.420739',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_UNIT_13','1.1','2026-11-30 15:40:12.420742',NULL);
INSERT INTO "node_traits" VALUES(13,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:12.420745',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_RACK_7','1.1','2026-11-30 15:40:12.570470',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_RB','1.1','2026-11-30 15:40:12.570480',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_UNIT_14','1.1','2026-11-30 15:40:12.570483',NULL);
INSERT INTO "node_traits" VALUES(14,'HW_CPU_X86_VMX','1.1','2026-11-30 15:40:12.570485',NULL);
CREATE TABLE nodes (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	instance_uuid VARCHAR(36), 
	name VARCHAR(255), 
	chassis_id INTEGER, 
	power_state VARCHAR(15), 
	target_power_state VARCHAR(15), 
	provision_state VARCHAR(15), 
	target_provision_state VARCHAR(15), 
	provision_updated_at DATETIME, 
	last_error TEXT, 
	instance_info TEXT, 
	properties TEXT, 
	driver VARCHAR(255), 
	driver_info TEXT, 
	driver_internal_info TEXT, 
	clean_step TEXT, 
	deploy_step TEXT, 
	resource_class VARCHAR(80), 
	raid_config TEXT, 
	target_raid_config TEXT, 
	reservation VARCHAR(255), 
	conductor_affinity INTEGER, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	maintenance BOOLEAN, 
	maintenance_reason TEXT, 
	fault VARCHAR(255), 
	console_enabled BOOLEAN, 
	inspection_finished_at DATETIME, 
	inspection_started_at DATETIME, 
	extra TEXT, 
	automated_clean BOOLEAN, 
	protected BOOLEAN DEFAULT 0 NOT NULL, 
	protected_reason TEXT, 
	owner VARCHAR(255), 
	lessee VARCHAR(255), 
	allocation_id INTEGER, 
	description TEXT, 
	bios_interface VARCHAR(255), 
	boot_interface VARCHAR(255), 
	console_interface VARCHAR(255), 
	deploy_interface VARCHAR(255), 
	firmware_interface VARCHAR(255), 
	inspect_interface VARCHAR(255), 
	management_interface VARCHAR(255), 
	network_interface VARCHAR(255), 
	raid_interface VARCHAR(255), 
	rescue_interface VARCHAR(255), 
	retired BOOLEAN DEFAULT 0, 
	retired_reason TEXT, 
	network_data TEXT, 
	storage_interface VARCHAR(255), 
	power_interface VARCHAR(255), 
	vendor_interface VARCHAR(255), 
	boot_mode VARCHAR(16), 
	secure_boot BOOLEAN, 
	shard VARCHAR(255), 
	parent_node VARCHAR(36), 
	service_step TEXT, 
	disable_power_off BOOLEAN DEFAULT 0, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodes0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_nodes0instance_uuid UNIQUE (instance_uuid), 
	CONSTRAINT uniq_nodes0name UNIQUE (name), 
	FOREIGN KEY(chassis_id) REFERENCES chassis (id), 
	CONSTRAINT nodes_conductor_affinity_fk FOREIGN KEY(conductor_affinity) REFERENCES conductors (id), 
	FOREIGN KEY(allocation_id) REFERENCES allocations (id)
);
INSERT INTO "nodes" VALUES(1,'00000001-0000-4000-8000-000000000000',NULL,'r7-01',1,'power off',NULL,'enroll',NULL,NULL,NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 1}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,'Größe: eine Höheneinheit','fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,NULL,'noop','fake','fake',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:09.992045','2026-11-30 15:40:10.071706');
INSERT INTO "nodes" VALUES(2,'00000002-0000-4000-8000-000000000000',NULL,'r7-02',1,'power off',NULL,'manageable',NULL,'2026-11-30 15:40:13.735777',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.2", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',1,'new fan',NULL,0,'2026-11-30 15:40:13.735793',NULL,'{"rack": 7, "unit": 2}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:10.239036','2026-11-30 15:40:13.753591');
INSERT INTO "nodes" VALUES(3,'00000003-0000-4000-8000-000000000000',NULL,'r7-03',1,'power off',NULL,'available',NULL,'2026-11-30 15:40:14.599438',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.3", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 3}',0,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,'s1',NULL,'{}',0,'1.42','2026-11-30 15:40:10.493342','2026-11-30 15:40:14.625886');
INSERT INTO "nodes" VALUES(4,'00000004-0000-4000-8000-000000000000','00000602-0000-4000-8000-000000000000','r7-04',1,'power on',NULL,'active',NULL,'2026-11-30 15:40:16.907936',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk", "traits": []}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.4", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000004", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 4}',NULL,1,'database','0123456789abcdef0123456789abcdef',NULL,4,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,1,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:10.751840','2026-11-30 15:40:18.760047');
INSERT INTO "nodes" VALUES(5,'00000005-0000-4000-8000-000000000000','00000905-0000-4000-8000-000000000000','r7-05',1,'power on',NULL,'rescue',NULL,'2026-11-30 15:40:18.562960',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk", "rescue_password": "pLaNtEd-rescue-word", "hashed_rescue_password": "$6$salt$hash"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.5", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000005", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 5}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',0,NULL,'{}','noop','ipmitool','ipmitool','uefi',NULL,NULL,NULL,'{}',1,'1.42','2026-11-30 15:40:11.061519','2026-11-30 15:40:18.577576');
INSERT INTO "nodes" VALUES(6,'00000006-0000-4000-8000-000000000000','00000601-0000-4000-8000-000000000000','r7-06',1,'power on',NULL,'active',NULL,'2026-11-30 15:40:16.686486',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "traits": ["CUSTOM_UNIT_6"], "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "last_power_state_change": "2026-03-01T12:00:00.000000", "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000006", "deploy_boot_mode": "uefi", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 6}',NULL,0,NULL,'0123456789abcdef0123456789abcdef','0123456789abcdef0123456789abcdef',1,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:11.209743','2026-11-30 15:40:16.697445');
INSERT INTO "nodes" VALUES(7,'00000007-0000-4000-8000-000000000000',NULL,'r7-07',1,'power off',NULL,'clean failed','available','2026-11-30 15:40:13.085558','Timeout reached while cleaning the node.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.7", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',1,'cleaning','clean failure',0,NULL,NULL,'{"rack": 7, "unit": 7}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:11.385320','2026-11-30 15:40:13.106811');
INSERT INTO "nodes" VALUES(8,'00000008-0000-4000-8000-000000000000','00000908-0000-4000-8000-000000000000','r7-08',1,'power on',NULL,'deploy failed','active','2026-11-30 15:40:15.130928','No image.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.8", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null, "is_whole_disk_image": true, "root_uuid_or_disk_id": "0x00000008", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 8}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:11.539468','2026-11-30 15:40:15.164424');
INSERT INTO "nodes" VALUES(9,'00000009-0000-4000-8000-000000000000',NULL,'r7-09',1,'power off',NULL,'inspect failed','manageable','2026-11-30 15:40:13.198473','Timeout','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.9", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 9}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,'00000008-0000-4000-8000-000000000000','{}',0,'1.42','2026-11-30 15:40:11.756269','2026-11-30 15:40:13.231133');
INSERT INTO "nodes" VALUES(10,'00000010-0000-4000-8000-000000000000',NULL,'r7-10',1,'power off',NULL,'adopt failed','active',NULL,'No image source.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 10}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:11.928007','2026-11-30 15:40:11.973152');
INSERT INTO "nodes" VALUES(11,'00000011-0000-4000-8000-000000000000','00000911-0000-4000-8000-000000000000','r7-11',1,'power on',NULL,'rescue failed','rescue','2026-11-30 15:40:17.178770','No ramdisk.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.11", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000b", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 11}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',0,NULL,'{}','noop','ipmitool','ipmitool',NULL,NULL,NULL,NULL,'{}',1,'1.42','2026-11-30 15:40:12.085318','2026-11-30 15:40:17.196191');
INSERT INTO "nodes" VALUES(12,'00000012-0000-4000-8000-000000000000','00000912-0000-4000-8000-000000000000','r7-12',1,'power on',NULL,'unrescue failed','active','2026-11-30 15:40:17.514259','No power.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000c", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 12}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:12.233888','2026-11-30 15:40:17.523634');
INSERT INTO "nodes" VALUES(13,'00000013-0000-4000-8000-000000000000','00000913-0000-4000-8000-000000000000','r7-13',1,'power on',NULL,'service failed','active','2026-11-30 15:40:17.457451','A step failed.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000d", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 13}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}',0,'1.42','2026-11-30 15:40:12.382167','2026-11-30 15:40:17.465897');
INSERT INTO "nodes" VALUES(14,'00000014-0000-4000-8000-000000000000',NULL,'r7-14',1,'power off',NULL,'error','available','2026-11-30 15:40:13.415498','Undeploy failed.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.14", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 14}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',1,'old','{}','noop','ipmitool','ipmitool',NULL,NULL,NULL,NULL,'{}',1,'1.42','2026-11-30 15:40:12.524058','2026-11-30 15:40:13.440983');
CREATE TABLE portgroups (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255), 
	node_id INTEGER, 
	address VARCHAR(18), 
	extra TEXT, 
	internal_info TEXT, 
	standalone_ports_supported BOOLEAN, 
	mode VARCHAR(255), 
	properties TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_portgroups0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_portgroups0address UNIQUE (address), 
	CONSTRAINT uniq_portgroups0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "portgroups" VALUES(1,'00002004-0000-4000-8000-000000000000','r7-04-bond',4,'52:54:00:08:04:00','{"a": [1, null]}','{}',1,'802.3ad','{"miimon": 100}','1.6','2026-11-30 15:40:10.821946',NULL);
INSERT INTO "portgroups" VALUES(2,'00002006-0000-4000-8000-000000000000','r7-06-bond',6,'52:54:00:08:06:00','{"a": [1, null]}','{}',1,'802.3ad','{"miimon": 100}','1.6','2026-11-30 15:40:11.269865',NULL);
CREATE TABLE ports (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	address VARCHAR(18), 
	node_id INTEGER, 
	extra TEXT, 
	local_link_connection TEXT, 
	portgroup_id INTEGER, 
	pxe_enabled BOOLEAN, 
	internal_info TEXT, 
	physical_network VARCHAR(64), 
	is_smartnic BOOLEAN, 
	name VARCHAR(255), 
	description VARCHAR(255), 
	vendor VARCHAR(32), 
	category VARCHAR(80), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_ports0address UNIQUE (address), 
	CONSTRAINT uniq_ports0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_ports0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id), 
	FOREIGN KEY(portgroup_id) REFERENCES portgroups (id)
);
INSERT INTO "ports" VALUES(1,'00001010-0000-4000-8000-000000000000','52:54:00:07:01:00',1,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.111983',NULL);
INSERT INTO "ports" VALUES(2,'00001011-0000-4000-8000-000000000000','52:54:00:07:01:01',1,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.156080',NULL);
INSERT INTO "ports" VALUES(3,'00001020-0000-4000-8000-000000000000','52:54:00:07:02:00',2,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.426779',NULL);
INSERT INTO "ports" VALUES(4,'00001021-0000-4000-8000-000000000000','52:54:00:07:02:01',2,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.461903',NULL);
INSERT INTO "ports" VALUES(5,'00001030-0000-4000-8000-000000000000','52:54:00:07:03:00',3,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.595305',NULL);
INSERT INTO "ports" VALUES(6,'00001031-0000-4000-8000-000000000000','52:54:00:07:03:01',3,'{"nic": 1}','{}',NULL,0,'{}','physnet1',1,NULL,'second card','example','data','1.15','2026-11-30 15:40:10.649827',NULL);
INSERT INTO "ports" VALUES(7,'00001040-0000-4000-8000-000000000000','52:54:00:07:04:00',4,'{"nic": 0}','{"switch_id": "52:54:00:00:00:ff", "port_id": "Eth1/0", "switch_info": "leaf-7"}',1,1,'{"tenant_vif_port_id": "00000801-0000-4000-8000-000000000000"}','physnet1',0,'r7-04-nic0',NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.903170',NULL);
INSERT INTO "ports" VALUES(8,'00001041-0000-4000-8000-000000000000','52:54:00:07:04:01',4,'{"nic": 1}','{"switch_id": "52:54:00:00:00:ff", "port_id": "Eth1/1", "switch_info": "leaf-7"}',1,0,'{}','physnet1',0,'r7-04-nic1',NULL,NULL,NULL,'1.15','2026-11-30 15:40:10.971996',NULL);
INSERT INTO "ports" VALUES(9,'00001050-0000-4000-8000-000000000000','52:54:00:07:05:00',5,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.137622',NULL);
INSERT INTO "ports" VALUES(10,'00001051-0000-4000-8000-000000000000','52:54:00:07:05:01',5,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.173325',NULL);
INSERT INTO "ports" VALUES(11,'00001060-0000-4000-8000-000000000000','52:54:00:07:06:00',6,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.303428',NULL);
INSERT INTO "ports" VALUES(12,'00001061-0000-4000-8000-000000000000','52:54:00:07:06:01',6,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.343910',NULL);
INSERT INTO "ports" VALUES(13,'00001070-0000-4000-8000-000000000000','52:54:00:07:07:00',7,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.462280',NULL);
INSERT INTO "ports" VALUES(14,'00001071-0000-4000-8000-000000000000','52:54:00:07:07:01',7,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.498693',NULL);
INSERT INTO "ports" VALUES(15,'00001080-0000-4000-8000-000000000000','52:54:00:07:08:00',8,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.622336',NULL);
INSERT INTO "ports" VALUES(16,'00001081-0000-4000-8000-000000000000','52:54:00:07:08:01',8,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.659337',NULL);
INSERT INTO "ports" VALUES(17,'00001090-0000-4000-8000-000000000000','52:54:00:07:09:00',9,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.847574',NULL);
INSERT INTO "ports" VALUES(18,'00001091-0000-4000-8000-000000000000','52:54:00:07:09:01',9,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:11.885853',NULL);
INSERT INTO "ports" VALUES(19,'00001100-0000-4000-8000-000000000000','52:54:00:07:0a:00',10,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.008156',NULL);
INSERT INTO "ports" VALUES(20,'00001101-0000-4000-8000-000000000000','52:54:00:07:0a:01',10,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.047057',NULL);
INSERT INTO "ports" VALUES(21,'00001110-0000-4000-8000-000000000000','52:54:00:07:0b:00',11,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.161310',NULL);
INSERT INTO "ports" VALUES(22,'00001111-0000-4000-8000-000000000000','52:54:00:07:0b:01',11,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.196926',NULL);
INSERT INTO "ports" VALUES(23,'00001120-0000-4000-8000-000000000000','52:54:00:07:0c:00',12,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.312559',NULL);
INSERT INTO "ports" VALUES(24,'00001121-0000-4000-8000-000000000000','52:54:00:07:0c:01',12,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.344492',NULL);
INSERT INTO "ports" VALUES(25,'00001130-0000-4000-8000-000000000000','52:54:00:07:0d:00',13,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.454819',NULL);
INSERT INTO "ports" VALUES(26,'00001131-0000-4000-8000-000000000000','52:54:00:07:0d:01',13,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.491337',NULL);
INSERT INTO "ports" VALUES(27,'00001140-0000-4000-8000-000000000000','52:54:00:07:0e:00',14,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.607116',NULL);
INSERT INTO "ports" VALUES(28,'00001141-0000-4000-8000-000000000000','52:54:00:07:0e:01',14,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,NULL,NULL,NULL,'1.15','2026-11-30 15:40:12.642426',NULL);
CREATE TABLE runbook_steps (
	id INTEGER NOT NULL, 
	runbook_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	"order" INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(runbook_id) REFERENCES runbooks (id)
);
INSERT INTO "runbook_steps" VALUES(1,1,'deploy','erase_devices_metadata','{"password": "pLaNtEd-runbook-word"}',1,NULL,'2026-11-30 15:40:09.837522',NULL);
CREATE TABLE runbooks (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	public BOOLEAN, 
	owner VARCHAR(255), 
	disable_ramdisk BOOLEAN, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_runbooks0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_runbooks0name UNIQUE (name)
);
INSERT INTO "runbooks" VALUES(1,'00000711-0000-4000-8000-000000000000','CUSTOM_RB',0,'0123456789abcdef0123456789abcdef',0,'{"r": 1}','1.1','2026-11-30 15:40:09.831499',NULL);
CREATE TABLE volume_connectors (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	type VARCHAR(32), 
	connector_id VARCHAR(255), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumeconnectors0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumeconnectors0type0connector_id UNIQUE (type, connector_id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_connectors" VALUES(1,'00003003-0000-4000-8000-000000000000',3,'iqn','iqn.2026-01.org.example:r7-03','{"c": 1}','1.1','2026-11-30 15:40:10.685297',NULL);
INSERT INTO "volume_connectors" VALUES(2,'00003004-0000-4000-8000-000000000000',4,'iqn','iqn.2026-01.org.example:r7-04','{"c": 1}','1.1','2026-11-30 15:40:10.998675',NULL);
INSERT INTO "volume_connectors" VALUES(3,'00003008-0000-4000-8000-000000000000',8,'iqn','iqn.2026-01.org.example:r7-08','{"c": 1}','1.1','2026-11-30 15:40:11.689612',NULL);
CREATE TABLE volume_targets (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	volume_type VARCHAR(64), 
	properties TEXT, 
	boot_index INTEGER, 
	volume_id VARCHAR(36), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumetargets0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumetargets0node_id0boot_index UNIQUE (node_id, boot_index), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_targets" VALUES(1,'00004003-0000-4000-8000-000000000000',3,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-3','{}','1.1','2026-11-30 15:40:10.707118',NULL);
INSERT INTO "volume_targets" VALUES(2,'00004004-0000-4000-8000-000000000000',4,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-4','{}','1.1','2026-11-30 15:40:11.018567',NULL);
INSERT INTO "volume_targets" VALUES(3,'00004008-0000-4000-8000-000000000000',8,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-8','{}','1.1','2026-11-30 15:40:11.714925',NULL);
CREATE INDEX inspection_rule_phase_idx ON inspection_rules (phase);
CREATE INDEX inspection_rule_scope_idx ON inspection_rules (scope);
CREATE INDEX lessee_idx ON nodes (lessee);
CREATE INDEX conductor_group_idx ON nodes (conductor_group);
CREATE INDEX shard_idx ON nodes (shard);
CREATE INDEX driver_idx ON nodes (driver);
CREATE INDEX reservation_idx ON nodes (reservation);
CREATE INDEX owner_idx ON nodes (owner);
CREATE INDEX resource_class_idx ON nodes (resource_class);
CREATE INDEX parent_node_idx ON nodes (parent_node);
CREATE INDEX provision_state_idx ON nodes (provision_state);
CREATE INDEX deploy_template_id ON deploy_template_steps (deploy_template_id);
CREATE INDEX deploy_template_steps_interface_idx ON deploy_template_steps (interface);
CREATE INDEX deploy_template_steps_step_idx ON deploy_template_steps (step);
CREATE INDEX runbook_steps_interface_idx ON runbook_steps (interface);
CREATE INDEX runbook_steps_step_idx ON runbook_steps (step);
CREATE INDEX runbook_id ON runbook_steps (runbook_id);
CREATE INDEX node_tags_idx ON node_tags (tag);
CREATE INDEX node_traits_idx ON node_traits (trait);
CREATE INDEX history_conductor_idx ON node_history (conductor);
CREATE INDEX history_uuid_idx ON node_history (uuid);
CREATE INDEX history_node_id_idx ON node_history (node_id);
CREATE INDEX inventory_node_id_idx ON node_inventory (node_id);
COMMIT;
